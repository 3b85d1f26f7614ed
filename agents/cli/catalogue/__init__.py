"""The catalogue of plugins: `providers` finds them and their facts, `view` shows them, `key_checks` tries their keys."""
