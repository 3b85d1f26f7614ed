"""The catalogue of plugins: `providers` finds their facts, `view` shows them, `key_checks` asks vendors about keys."""
