"""The locales and voices of Azure Speech that errors name; the service decides, and may have others.

Sources: https://learn.microsoft.com/azure/ai-services/speech-service/language-support (tables "stt" and "tts"), and
.../language-identification for the number of candidates.
"""

from __future__ import annotations

DEFAULT_VOICE = "en-US-AvaMultilingualNeural"
"""The SDK's own default."""

VOICES_PAGE = "https://learn.microsoft.com/azure/ai-services/speech-service/language-support?tabs=tts"

MAX_CANDIDATES = 10
"""Languages among which the service detects the spoken one."""

LOCALES = (
    "af-ZA am-ET ar-AE ar-BH ar-DZ ar-EG ar-IL ar-IQ ar-JO ar-KW ar-LB ar-LY ar-MA ar-OM ar-PS ar-QA ar-SA ar-SY ar-TN"
    " ar-YE as-IN az-AZ bg-BG bn-IN bs-BA ca-ES cs-CZ cy-GB da-DK de-AT de-CH de-DE el-GR en-AU en-CA en-GB en-GH en-HK"
    " en-IE en-IN en-KE en-NG en-NZ en-PH en-SG en-TZ en-US en-ZA es-AR es-BO es-CL es-CO es-CR es-CU es-DO es-EC es-ES"
    " es-GQ es-GT es-HN es-MX es-NI es-PA es-PE es-PR es-PY es-SV es-US es-UY es-VE et-EE eu-ES fa-IR fi-FI fil-PH"
    " fr-BE fr-CA fr-CH fr-FR ga-IE gl-ES gu-IN he-IL hi-IN hr-HR hu-HU hy-AM id-ID is-IS it-CH it-IT ja-JP jv-ID ka-GE"
    " kk-KZ km-KH kn-IN ko-KR lo-LA lt-LT lv-LV mk-MK ml-IN mn-MN mr-IN ms-MY mt-MT my-MM nb-NO ne-NP nl-BE nl-NL or-IN"
    " pa-IN pl-PL ps-AF pt-BR pt-PT ro-RO ru-RU si-LK sk-SK sl-SI so-SO sq-AL sr-RS sv-SE sw-KE sw-TZ ta-IN te-IN th-TH"
    " tr-TR uk-UA ur-IN uz-UZ vi-VN wuu-CN yue-CN zh-CN zh-CN-shandong zh-CN-sichuan zh-HK zh-TW zu-ZA"
).split()
"""Locales of the recogniser."""


def locales_like(locale: str) -> tuple[str, ...]:
    """Return the known locales of a locale's language; all of them if its language is not known."""
    language = locale.partition("-")[0].casefold()
    return tuple(one for one in LOCALES if one.partition("-")[0] == language) or tuple(LOCALES)
