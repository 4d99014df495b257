"""`bytewise key`: key ceremonies, key epochs, release logs and erasure statements."""
