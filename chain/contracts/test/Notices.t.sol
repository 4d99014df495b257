// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StakeTree} from "../src/stake/StakeTree.sol";
import {IStakeTree} from "../src/interfaces/IStakeTree.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {Staking} from "./Staking.sol";

/// @title A tree that fails in all the ways in which a call can, until it is told to work
contract Saboteur {
    StakeTree private immutable TREE;
    uint8 private _fault;

    constructor(StakeTree tree) {
        TREE = tree;
    }

    function sabotage(uint8 fault) external {
        _fault = fault;
    }

    fallback() external {
        uint8 fault = _fault;
        if (fault == 1) revert("no");
        while (fault == 2) {}
        assembly ("memory-safe") {
            if eq(fault, 3) { revert(0, 200000) }
            if eq(fault, 4) { invalid() }
        }
        (bool ok, bytes memory data) = address(TREE).call(msg.data);
        assembly ("memory-safe") {
            if ok { return(add(data, 32), mload(data)) }
            revert(add(data, 32), mload(data))
        }
    }
}

/// @title What the vault tells the registry: nobody can stop a slash by it, nor choose that it is not told
contract NoticesTest is Staking {
    bytes32 private constant BAD = "bad";
    Saboteur private saboteur;
    IStakeTree private behind; // the tree that the saboteur stands before
    address private who;

    function setUp() public override {
        super.setUp();
        StakeTree made = new StakeTree(EPOCH, LOOKAHEAD, UNIT, MOST_UNITS);
        saboteur = new Saboteur(made);
        made.wire(address(saboteur));
        behind = made;
        registry.addPool(BAD, IStakeTree(address(saboteur)));
        who = person(0);
        staked(who, 20 ether);
        joins(who, BAD, platform(0));
    }

    function units() private view returns (uint256) {
        return behind.unitsAt(who, behind.epoch() + 1);
    }

    function test_a_tree_that_fails_stops_no_slash_and_no_exit(uint8 fault, uint96 want, uint96 leaving) public {
        uint256 w = bound(want, 1, 10 ether);
        uint256 l = bound(leaving, 1, 10 ether);
        saboteur.sabotage(uint8(bound(fault, 1, 4)));
        vm.prank(SETTLEMENT);
        // Of a tree that burns whatever it gets, `NOTICE_GAS` is all that is lost.
        same(vault.slash{gas: 1_500_000}(who, 0, w, REF), w, "taken");
        vm.prank(who);
        vault.requestUnbond{gas: 1_500_000}(l);
        same(vault.stakeOf(who), 20 ether - w - l, "left");
        same(ledger.potOf(REF), w, "pot");
        same(units(), 20, "the tree does not know");
        saboteur.sabotage(0);
        registry.refresh(who);
        same(units(), unitsOf(20 ether - w - l), "now it does");
    }

    /// @dev With any amount of gas, at any place where it ends: all of it happens, or nothing. An exit whose notice failed for
    ///      want of gas would keep its weight; a slash has more to do after its notice, so it is harder to cut.
    /// forge-config: default.fuzz.runs = 256
    function test_nobody_can_starve_the_notice(uint24 gas_, bool exit) public {
        nextEpoch();
        chilled();
        uint256 given = bound(gas_, 60_000, 1_000_000);
        vm.prank(exit ? who : SETTLEMENT);
        bool ok;
        if (exit) (ok,) = address(vault).call{gas: given}(abi.encodeCall(vault.requestUnbond, (10 ether)));
        else (ok,) = address(vault).call{gas: given}(abi.encodeCall(vault.slash, (who, 0, 10 ether, REF)));
        same(vault.stakeOf(who), ok ? 10 ether : 20 ether, "stake");
        same(units(), ok ? 10 : 20, "weight");
    }

    function chilled() private {
        vm.cool(address(behind));
        vm.cool(address(tree));
        vm.cool(address(vault));
        vm.cool(address(registry));
        vm.cool(address(params));
        vm.cool(address(guardian));
    }

    function test_too_little_gas_is_said(uint24 gas_) public {
        uint256 given = bound(gas_, 200_000, vault.NOTICE_GAS());
        vm.deal(who, 1 ether);
        vm.prank(who);
        vm.expectPartialRevert(IStakeSource.GasTooLow.selector);
        vault.deposit{gas: given, value: 1 ether}();
    }

    /// @dev The dearest notice, 210,000 gas: new nodes on every level, a new epoch, and a pool that can judge again.
    function test_the_gas_of_a_notice_is_three_times_the_dearest(uint8 many) public {
        for (uint256 i = 1; i < MIN_POOL; ++i) {
            joined(i, LEAST);
        }
        joined(MIN_POOL, LEAST + bound(many, 0, 100) * 1 ether);
        address last = person(MIN_POOL);
        slashes(last, 0, vault.stakeOf(last) - LEAST + 1);
        that(!registry.isSeatable(POOL), "too small");
        nextEpoch();
        chilled();
        vm.prank(address(vault));
        uint256 before = gasleft();
        registry.onStake(last, LEAST);
        uint256 used = before - gasleft();
        that(registry.isSeatable(POOL), "large enough");
        that(3 * used <= vault.NOTICE_GAS(), "three times");
        that(5 * used >= vault.NOTICE_GAS(), "and not much more");
    }

    function test_only_the_vault_gives_notice(address stranger, uint96 stake) public {
        vm.assume(stranger != address(vault));
        vm.prank(stranger);
        vm.expectRevert(abi.encodeWithSignature("NotAuthorised(address)", stranger));
        registry.onStake(who, stake);
    }

    function test_who_is_no_verifier_weighs_nothing(uint96 amount) public {
        address other = person(1);
        staked(other, bound(amount, 1, 100 ether));
        same(unitsNext(other), 0, "units");
        vm.expectRevert(abi.encodeWithSelector(IRegistry.NotVerifier.selector, other));
        registry.refresh(other);
    }
}
