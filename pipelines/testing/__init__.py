"""The test kit for plugin authors and apps: scripted providers, conformance checks, virtual time."""
