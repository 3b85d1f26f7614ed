"""Session reports: `report.json` by its published schema, and one HTML page that shows the call without a network.

| room | owns |
|---|---|
| `read` | report.json, as it is read and checked |
| `schema` | the JSON schema of version 1, `session_report_v1.schema.json` beside it |
| `peaks` | the waveforms of a recording |
| `markup` | HTML and SVG elements; everything that goes into them is escaped |
| `timeline`, `turns`, `figures` | the parts of the page |
| `page` | the page |
| `files` | both as files, the page with the recording that belongs to it |

Nothing here is imported by a session: a report costs nothing until it is asked for.
"""
