// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title The cheatcodes that these tests use
interface Vm {
    /// @notice One event as it was emitted.
    struct Log {
        bytes32[] topics;
        bytes data;
        address emitter;
    }

    function accesses(address who) external returns (bytes32[] memory reads, bytes32[] memory writes);
    function addr(uint256 key) external pure returns (address);
    function assume(bool condition) external pure;
    function chainId(uint256 id) external;
    function cool(address who) external;
    function deal(address who, uint256 balance) external;
    function deployCode(string calldata artifact, bytes calldata arguments) external returns (address);
    function envOr(string calldata name, string calldata otherwise) external view returns (string memory);
    function etch(address where, bytes calldata code) external;
    function expectPartialRevert(bytes4 selector) external;
    function expectRevert(bytes calldata data) external;
    function expectRevert(bytes4 selector) external;
    function getRecordedLogs() external returns (Log[] memory);
    function load(address where, bytes32 slot) external view returns (bytes32);
    function parseJsonAddress(string calldata json, string calldata key) external pure returns (address);
    function parseJsonAddressArray(string calldata json, string calldata key) external pure returns (address[] memory);
    function parseJsonBoolArray(string calldata json, string calldata key) external pure returns (bool[] memory);
    function parseJsonBytes(string calldata json, string calldata key) external pure returns (bytes memory);
    function parseJsonBytes32(string calldata json, string calldata key) external pure returns (bytes32);
    function parseJsonBytes32Array(string calldata json, string calldata key) external pure returns (bytes32[] memory);
    function parseJsonBytesArray(string calldata json, string calldata key) external pure returns (bytes[] memory);
    function parseJsonString(string calldata json, string calldata key) external pure returns (string memory);
    function parseJsonStringArray(string calldata json, string calldata key) external pure returns (string[] memory);
    function parseJsonUint(string calldata json, string calldata key) external pure returns (uint256);
    function parseJsonUintArray(string calldata json, string calldata key) external pure returns (uint256[] memory);
    function prank(address who) external;
    function readFile(string calldata path) external view returns (string memory);
    function record() external;
    function revertToState(uint256 snapshot) external returns (bool);
    function recordLogs() external;
    function roll(uint256 blockNumber) external;
    function setBlockhash(uint256 blockNumber, bytes32 hash) external;
    function sign(uint256 key, bytes32 digest) external pure returns (uint8 v, bytes32 r, bytes32 s);
    function snapshotState() external returns (uint256 snapshot);
    function warp(uint256 timestamp) external;
    function writeLine(string calldata path, string calldata line) external;
}

/// @title Assertions; a failure says what it saw
abstract contract Check {
    Vm internal constant vm = Vm(address(uint160(uint256(keccak256("hevm cheat code")))));

    error Differ(string what, uint256 have, uint256 want);
    error Failed(string what);

    function same(uint256 have, uint256 want, string memory what) internal pure {
        if (have != want) revert Differ(what, have, want);
    }

    function same(bytes32 have, bytes32 want, string memory what) internal pure {
        if (have != want) revert Differ(what, uint256(have), uint256(want));
    }

    function same(address have, address want, string memory what) internal pure {
        if (have != want) revert Differ(what, uint160(have), uint160(want));
    }

    function that(bool ok, string memory what) internal pure {
        if (!ok) revert Failed(what);
    }

    function bound(uint256 x, uint256 low, uint256 high) internal pure returns (uint256) {
        return low + x % (high - low + 1);
    }
}
