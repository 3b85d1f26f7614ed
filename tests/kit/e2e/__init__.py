"""Helpers of the end-to-end tests: room endpoints, and LiveKit clients in processes of their own."""
