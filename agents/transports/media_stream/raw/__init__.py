"""The stream of plain PCM: its wire and its way in."""
