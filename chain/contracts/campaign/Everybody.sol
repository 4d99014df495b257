// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Strings} from "@openzeppelin/contracts/utils/Strings.sol";
import {ParamSet, Verdict} from "../src/libraries/Types.sol";
import {Ending} from "./Ending.sol";
import {Mirror} from "./Mirror.sol";
import {Table} from "./Table.sol";

/// @title Everybody does anything, in any order, on a network of their own
contract Everybody is Ending {
    constructor() {
        vm.warp(1_800_000_000);
        vm.roll(100_000);
        vm.recordLogs();
        ParamSet memory p = parameters();
        mirror = new Mirror(p.times.withdrawDelay, p.times.unbondDelay, p.shares.alphaBps);
        deploy(p);
        _populate();
        _watch();
        _check();
    }

    /// @notice One line of what this run did: rows of the table, ends, calls that succeeded, reasons of refusals.
    function report() external view returns (string memory line) {
        for (uint8 i = 0; i <= uint8(type(Table.Move).max); ++i) {
            line = string.concat(line, i == 0 ? "" : ",", Strings.toString(moved[Table.Move(i)]));
        }
        for (uint8 i = 0; i <= uint8(type(Verdict).max); ++i) {
            line = string.concat(line, i == 0 ? ";" : ",", Strings.toString(ended[Verdict(i)]));
        }
        line = string.concat(line, ";");
        for (uint256 i = 0; i < names.length; ++i) {
            line = string.concat(line, i == 0 ? "" : ",", names[i], "=", Strings.toString(done[names[i]]));
        }
        line = string.concat(line, ";");
        for (uint256 i = 0; i < reasons.length; ++i) {
            string memory why = Strings.toHexString(uint32(reasons[i]), 4);
            line = string.concat(line, i == 0 ? "" : ",", why, "=", Strings.toString(refused[reasons[i]]));
        }
    }
}
