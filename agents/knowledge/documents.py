"""Documents: the text of files that people write: txt, md, docx, and with the extra `documents` pdf."""

from __future__ import annotations

import zipfile
from pathlib import Path
from xml.etree import ElementTree

from vivavoce.pipelines.core.errors import ConfigurationError

MOST_BYTES = 20_000_000
"""Bytes of a file at most; a longer text is cut into files before."""
MOST_XML = 5 * MOST_BYTES
"""Bytes of the text in a docx, which is compressed."""
FORMATS = (".txt", ".md", ".pdf", ".docx")
HAS_HEADINGS = (".md", ".docx")

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"


def text_of(path: Path) -> str:
    """Return the text of a file, with `#` before its headings if `HAS_HEADINGS` has its format.

    Raises:
        ConfigurationError: The file is of another format, too long, broken, not there or without any word.
    """
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise ConfigurationError(f"a document must be one of {', '.join(FORMATS)}, got {path}; convert it first")
    try:
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise ConfigurationError(
                f"a document has at most {MOST_BYTES // 1_000_000} MB, got {size / 1e6:.1f} MB in {path}; divide it"
            )
        text = _pdf_text(path) if ending == ".pdf" else _docx_text(path) if ending == ".docx" else _plain_text(path)
    except OSError as error:
        raise ConfigurationError(f"need a document that can be read, got {path}: {error.strerror or error}") from error
    if not any(character.isalnum() for character in text):
        hint = "; scanned pages need OCR first" if ending == ".pdf" else ""
        raise ConfigurationError(f"need a document with text, got {path} without any word{hint}")
    return text


def _plain_text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"need text as UTF-8, got another encoding in {path}; save it as UTF-8") from error


def _pdf_text(path: Path) -> str:
    try:
        import pypdf
        from pypdf.errors import DependencyError, FileNotDecryptedError
    except ImportError as error:
        raise ConfigurationError(f"{path} needs pypdf; run: pip install 'vivavoce[documents]'") from error
    try:
        with path.open("rb") as file:
            return "\n\n".join(page.extract_text() for page in pypdf.PdfReader(file).pages)
    except OSError:
        raise
    except DependencyError as error:
        raise ConfigurationError(f"{path} is encrypted by AES; run: pip install cryptography") from error
    except FileNotDecryptedError as error:
        raise ConfigurationError(
            f"need a PDF that opens without a password, got {path}; save it without one"
        ) from error
    except Exception as error:  # noqa: BLE001 - foreign code, which raises whatever a broken or locked file leads it to
        raise ConfigurationError(f"need a PDF that can be read, got {path}: {type(error).__name__}") from error


def _docx_text(path: Path) -> str:
    try:
        with zipfile.ZipFile(path) as parts, parts.open("word/document.xml") as part:
            data = part.read(MOST_XML + 1)
        body = ElementTree.fromstring(data) if len(data) <= MOST_XML else None
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - as above; zlib has errors of its own
        raise ConfigurationError(f"need a docx that can be read, got {path}: {type(error).__name__}") from error
    if body is None:
        raise ConfigurationError(f"a document has at most {MOST_XML // 1_000_000} MB of text, got more in {path}")
    return "\n\n".join(_paragraph(paragraph) for paragraph in body.iter(f"{_W}p"))


def _paragraph(paragraph: ElementTree.Element) -> str:
    style = paragraph.find(f"{_W}pPr/{_W}pStyle")
    is_heading = style is not None and style.get(f"{_W}val", "").lower().startswith(("heading", "title"))
    spaces = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n"}
    text = "".join((one.text or "") if one.tag == f"{_W}t" else spaces.get(one.tag, "") for one in paragraph.iter())
    return f"# {text}" if is_heading and text.strip() else text
