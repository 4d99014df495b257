"""Golden numbers of profile `exact-1`: they never change. Made by tests/vectors/make_exact1.py."""

from bytewise.protocol.units import Digest

PROFILE_DIGEST = Digest(bytes.fromhex("b6ad51f910a00e8fe98d982680ef7f1cb6cf22e2474243e9d56e6adc6de1e7b8"))
"""`self_test.profile_digest` on every backend and machine."""

MODEL_DIGESTS = {
    "bias and window": Digest(bytes.fromhex("225619367affa6145bcb1bdf2354dffa9042ead7db002b9a2ffa32d35715af6b")),
    "norms of heads, two limbs": Digest(bytes.fromhex("613e9f835d38f14526c9b2f42ad7b976d36b33ea53e15dcae9d0d78c6fa11e6b")),
    "wide scores": Digest(bytes.fromhex("d758897effbb7e8b3d2af523a43fdbc8e936e44c7aadfdce1e01342247ab4bed")),
    "softcaps": Digest(bytes.fromhex("3224bf5aa60bad9fc535c06717570968a91d8b27f4b884c2773573eddc7b9346")),
    "experts": Digest(bytes.fromhex("194b37acda8fdf21d3d16cc2e040e57fe1e2bef94c98ee975a2e36370f362cf2")),
}
"""`known_models.digest_on` of each known model, on every path and machine."""
