// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

// Deployed by name (`Deployment.made`) and of the other profile's folder: named here, or the compiler would not make them.
import {BlsKeys} from "../src/keys/BlsKeys.sol";
import {RandaoSource} from "../src/court/RandaoSource.sol";
import {StakeTree} from "../src/stake/StakeTree.sol";
