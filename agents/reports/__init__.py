"""Session reports: `report.json` by its published schema, and one HTML page that shows the call without a network.

| module | owns |
|---|---|
| `read` | reading and checking report.json |
| `schema` | the JSON schema of version 1, `session_report_v1.schema.json` beside it |
| `peaks` | the waveforms of a recording |
| `markup` | HTML and SVG elements; all their content is escaped |
| `timeline`, `turns`, `figures` | the parts of the page |
| `page` | the page |
| `files` | both as files, the page with the recording that belongs to it |

A session imports none of these modules before it writes a report, so a report costs nothing until it is requested.
"""
