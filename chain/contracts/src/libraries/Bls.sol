// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title Bls: BLS12-381 signatures on the precompiles of EIP-2537, keys in G1 and signatures in G2
/// @dev Hashing to the curve is RFC 9380, suite BLS12381G2_XMD:SHA-256_SSWU_RO_. A field element is two words, big-endian,
///      16 zero bytes first; an element of the quadratic field is its coefficients c0, c1. Infinity is all zero.
///      A failing precompile takes all gas that it was given, so each is given twice its price and no more.
library Bls {
    /// @notice A point of G1.
    struct G1 {
        bytes32 xHigh;
        bytes32 xLow;
        bytes32 yHigh;
        bytes32 yLow;
    }

    /// @notice A point of G2.
    struct G2 {
        bytes32 x0High;
        bytes32 x0Low;
        bytes32 x1High;
        bytes32 x1Low;
        bytes32 y0High;
        bytes32 y0Low;
        bytes32 y1High;
        bytes32 y1Low;
    }

    /// @notice Domain separation tag of signatures over digests.
    bytes internal constant SIGNATURE = "BLS_SIG_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_";
    /// @notice Domain separation tag of proofs of possession.
    bytes internal constant POSSESSION = "BLS_POP_BLS12381G2_XMD:SHA-256_SSWU_RO_POP_";

    uint256 private constant P_HIGH = 0x1a0111ea397fe69a4b1ba7b6434bacd7;
    uint256 private constant P_LOW = 0x64774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaab;

    address private constant MODEXP = address(0x05);
    address private constant G1_ADD = address(0x0b);
    address private constant G2_ADD = address(0x0d);
    address private constant PAIRING = address(0x0f);
    address private constant MAP_TO_G2 = address(0x11);

    /// @notice A precompile refused its input, or the chain does not have it.
    error PrecompileFailed(address precompile);

    /// @notice Whether a point of G1 is the neutral element.
    function isInfinity(G1 memory a) internal pure returns (bool) {
        return (a.xHigh | a.xLow | a.yHigh | a.yLow) == 0;
    }

    /// @notice Add `b` to `sum`, in its place. Both are on the curve; that they are in the subgroup is not checked.
    function addTo(G1 memory sum, G1 calldata b) internal view {
        bool ok;
        address precompile = G1_ADD;
        // Assembly because encoding and decoding cost several times the sum, and a committee has up to 255 of them.
        assembly ("memory-safe") {
            let input := mload(0x40)
            mcopy(input, sum, 128)
            calldatacopy(add(input, 128), b, 128)
            ok := staticcall(750, precompile, input, 256, sum, 128)
            // In a statement of its own: operands are evaluated from the right.
            ok := and(ok, eq(returndatasize(), 128))
        }
        if (!ok) revert PrecompileFailed(G1_ADD);
    }

    /// @notice The name of a key: keccak256 of its 128 bytes.
    function hashOf(G1 calldata a) internal pure returns (bytes32 result) {
        // Assembly because `abi.encode` would copy the four words twice.
        assembly ("memory-safe") {
            let input := mload(0x40)
            calldatacopy(input, a, 128)
            result := keccak256(input, 128)
        }
    }

    /// @notice Whether `signature` over `message` is that of `key`, under a domain separation tag of at most 255 bytes.
    ///         False for infinity as key, and for points that are not in their subgroup.
    function verify(G1 memory key, G2 memory signature, bytes32 message, bytes memory tag)
        internal
        view
        returns (bool)
    {
        if (isInfinity(key)) return false;
        bytes memory pairs = abi.encode(key, hashToG2(message, tag), _negativeGenerator(), signature);
        (bool ok, bytes memory out) = PAIRING.staticcall{gas: 205_800}(pairs);
        return ok && out.length == 32 && abi.decode(out, (uint256)) == 1;
    }

    /// @notice hash_to_curve of RFC 9380 for a message of one word.
    function hashToG2(bytes32 message, bytes memory tag) internal view returns (G2 memory) {
        bytes32[8] memory uniform = _expand(message, tag);
        bytes memory first = _map(uniform[0], uniform[1], uniform[2], uniform[3]);
        bytes memory second = _map(uniform[4], uniform[5], uniform[6], uniform[7]);
        // The precompile clears the cofactor of each; the sum of the cleared is the cleared sum.
        return abi.decode(_call(G2_ADD, 1_200, bytes.concat(first, second), 256), (G2));
    }

    /// @dev expand_message_xmd for 256 bytes.
    function _expand(bytes32 message, bytes memory tag) private pure returns (bytes32[8] memory out) {
        bytes memory suffix = abi.encodePacked(tag, uint8(tag.length));
        bytes32 start = sha256(abi.encodePacked(bytes32(0), bytes32(0), message, uint16(256), uint8(0), suffix));
        bytes32 last = 0;
        for (uint256 i = 0; i < 8; ++i) {
            last = sha256(abi.encodePacked(start ^ last, uint8(i + 1), suffix));
            out[i] = last;
        }
    }

    function _map(bytes32 a, bytes32 b, bytes32 c, bytes32 d) private view returns (bytes memory) {
        return _call(MAP_TO_G2, 47_600, bytes.concat(_reduce(a, b), _reduce(c, d)), 256);
    }

    /// @dev 64 bytes modulo p, as x^1 mod p.
    function _reduce(bytes32 high, bytes32 low) private view returns (bytes memory) {
        bytes memory sizes = abi.encode(64, 1, 64, high, low);
        return _call(MODEXP, 4_000, abi.encodePacked(sizes, uint8(1), P_HIGH, P_LOW), 64);
    }

    function _call(address precompile, uint256 allowance, bytes memory input, uint256 size)
        private
        view
        returns (bytes memory)
    {
        (bool ok, bytes memory out) = precompile.staticcall{gas: allowance}(input);
        if (!ok || out.length != size) revert PrecompileFailed(precompile);
        return out;
    }

    function _negativeGenerator() private pure returns (G1 memory) {
        return G1(
            bytes32(uint256(0x17f1d3a73197d7942695638c4fa9ac0f)),
            bytes32(0xc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb),
            bytes32(uint256(0x114d1d6855d545a8aa7d76c8cf2e21f2)),
            bytes32(0x67816aef1db507c96655b9d5caac42364e6f38ba0ecb751bad54dcd6b939c2ca)
        );
    }
}
