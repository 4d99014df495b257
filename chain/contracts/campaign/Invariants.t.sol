// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Check} from "../test/Vm.sol";
import {Everybody} from "./Everybody.sol";

/// @title One campaign: every action ends with `Checks`, now and then everything is counted anew, every run ends with `Ending`
/// @dev `make soak-contracts` makes at least a million calls and shows with planted faults that each check can fail.
contract InvariantsTest is Check {
    Everybody private all;

    struct FuzzSelector {
        address addr;
        bytes4[] selectors;
    }

    function setUp() public {
        all = new Everybody();
    }

    function targetContracts() public view returns (address[] memory list) {
        list = new address[](1);
        list[0] = address(all);
    }

    /// @dev Only the actions, not the getters and `goHome`.
    function targetSelectors() public view returns (FuzzSelector[] memory list) {
        bytes4[] memory s = new bytes4[](10);
        (s[0], s[1], s[2]) = (all.accuse.selector, all.goOn.selector, all.meddle.selector);
        (s[3], s[4], s[5], s[6]) = (all.vote.selector, all.moveMoney.selector, all.demand.selector, all.rule.selector);
        // Forge takes each as often as it is named.
        (s[7], s[8], s[9]) = (all.goOn.selector, all.goOn.selector, all.lookAt.selector);
        list = new FuzzSelector[](1);
        list[0] = FuzzSelector(address(all), s);
    }

    /// @dev After every `check_interval` calls, and the last.
    function invariant_everything_holds() public {
        all.recount();
    }

    function afterInvariant() public {
        all.goHome();
        all.recount();
        string memory path = vm.envOr("CAMPAIGN_LOG", string(""));
        if (bytes(path).length != 0) vm.writeLine(path, all.report());
    }
}
