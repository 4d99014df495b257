// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title TestChains: chains on which nothing is at stake: keys may be simulated, and disputes end in minutes
library TestChains {
    /// @notice anvil, geth in development mode, Sepolia, Holesky, Hoodi; `bytewise/protocol/evidence/appraisal_policy.py` has the same.
    function isOne(uint256 chainId) internal pure returns (bool) {
        return chainId == 31337 || chainId == 1337 || chainId == 11155111 || chainId == 17000 || chainId == 560048;
    }
}
