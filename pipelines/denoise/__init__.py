"""The denoise port: a frame in, the cleaned frame out, synchronously."""
