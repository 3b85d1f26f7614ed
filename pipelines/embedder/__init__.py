"""The port of embedders: models that turn texts into vectors, so that texts of one meaning are near each other."""
