// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {Wired} from "../src/libraries/Wired.sol";
import {StakeVault} from "../src/stake/StakeVault.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {Staking} from "./Staking.sol";

/// @title What is bound of a stake, and who may bind it
contract StakeBookTest is Staking {
    function test_what_is_bound_does_not_leave(uint96 amount, uint96 lock_, uint96 collateral, bool all_) public {
        address who = person(0);
        staked(who, 100 ether);
        uint256 c = bound(collateral, 0, 100 ether);
        uint256 l = bound(lock_, 0, 100 ether);
        uint256 a = all_ ? 100 ether : bound(amount, 1, 100 ether);
        reserves(who, c);
        locks(who, l);
        unbonds(who, a);
        passes(DELAY + 1 hours);
        // An operator's whole stake stays while it has receipts.
        uint256 kept = c != 0 && c + l < 20 ether ? 20 ether : c + l;
        uint256 left = kept < 100 ether ? 100 ether - kept : 0;
        if (left == 0) {
            vm.expectRevert(abi.encodeWithSelector(IStakeSource.StakeBound.selector, who, kept, 100 ether));
        }
        uint256 paid = finishes(who);
        same(paid, a < left ? a : left, "what nothing needs");
        // The rest when it is free.
        vm.prank(ANCHOR);
        vault.release(who, 1, c);
        vm.prank(SETTLEMENT);
        vault.unlock(who, l, REF);
        if (paid != a) same(finishes(who), a - paid, "the rest");
        same(who.balance, a, "all");
    }

    function test_stake_is_bound_once_by_receipts(uint96 amount, uint96 leaving, uint96 lock_) public {
        address who = person(0);
        staked(who, 100 ether);
        uint256 out = bound(leaving, 1, 50 ether);
        unbonds(who, out);
        uint256 l = locks(who, bound(lock_, 0, 30 ether));
        uint256 free = 100 ether - out - (l < 10 ether ? l : 10 ether);
        same(vault.freeStakeOf(who), free, "what counts, but for receipts and one slash");
        uint256 first = bound(amount, 0, free);
        reserves(who, first);
        uint256 more = free - first < 20 ether ? 20 ether : free - first + 1;
        vm.expectRevert(abi.encodeWithSelector(IStakeSource.StakeTooSmall.selector, who, free - first, more));
        reserves(who, free - first + 1);
        // Disputes may bind it again: that is what it is for.
        same(locks(who, 200 ether), 100 ether, "all there is");
        uint256 left = free - first + (l < 10 ether ? l : 10 ether);
        same(vault.freeStakeOf(who), left < 10 ether ? 0 : left - 10 ether, "and leave all but one slash to receipts");
    }

    /// @dev An operator that has disputes with itself, before or after, to have all of its stake bound, is slashed the same.
    function test_no_lock_shields_from_a_verdict(uint96[3] calldata shields, uint96 want, bool before, uint96 leaving)
        public
    {
        address who = person(0);
        staked(who, 20 ether);
        uint256 mine = before ? locks(who, 10 ether) : 0;
        for (uint256 i = 0; i < 3; ++i) {
            locks(who, shields[i]);
        }
        if (!before) mine = locks(who, 10 ether);
        same(mine, 10 ether, "bound, whoever binds it too");
        unbonds(who, bound(leaving, 1, 20 ether));
        uint256 taken = slashes(who, mine, want);
        same(taken, want < 20 ether ? want : 20 ether, "taken");
        // Nothing leaves while more is bound than there is.
        passes(DELAY + 1 hours);
        uint256 others = vault.lockedOf(who);
        (, uint256 due,) = vault.unbondingOf(who);
        uint256 left = 20 ether - taken;
        if (due == 0) return;
        if (others >= left) {
            vm.expectRevert(abi.encodeWithSelector(IStakeSource.StakeBound.selector, who, others, left));
        }
        uint256 paid = finishes(who);
        same(paid, others >= left ? 0 : due < left - others ? due : left - others, "what nothing needs");
    }

    function test_only_movers_bind_and_take(address who, uint96 amount, uint8 what) public {
        vm.assume(who != SETTLEMENT && who != ANCHOR && who != DEMANDS);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotAuthorised.selector, who));
        if (what % 5 == 0) vault.lock(person(0), amount, REF);
        else if (what % 5 == 1) vault.unlock(person(0), amount, REF);
        else if (what % 5 == 2) vault.slash(person(0), 0, amount, REF);
        else if (what % 5 == 3) vault.reserve(person(0), 1, amount, 0);
        else vault.release(person(0), 1, amount);
    }

    function test_only_governance_names_another_court(address who, address settlement) public {
        vm.assume(who != address(this) && settlement != SETTLEMENT && settlement != ANCHOR && settlement != DEMANDS);
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, who));
        vault.setMover(settlement, true);
        vault.setMover(settlement, true);
        vault.setMover(SETTLEMENT, false);
        staked(person(0), 1 ether);
        vm.prank(settlement);
        vault.reserve(person(0), 1, 1 ether, 0);
        vm.prank(settlement);
        same(vault.lock(person(0), 1 ether, REF), 1 ether, "the new one");
        vm.expectRevert(abi.encodeWithSelector(Wired.NotAuthorised.selector, SETTLEMENT));
        locks(person(0), 1);
    }

    function test_wiring_happens_once_by_the_deployer_to_somebody(address who, uint8 zero) public {
        vm.expectRevert(Wired.AlreadyWired.selector);
        vault.wire(registry, SETTLEMENT, ANCHOR, DEMANDS);
        StakeVault fresh = freshVault();
        if (who != address(this)) {
            vm.prank(who);
            vm.expectRevert(abi.encodeWithSelector(Wired.NotDeployer.selector, who));
            fresh.wire(registry, SETTLEMENT, ANCHOR, DEMANDS);
        }
        (IRegistry r, address s, address a, address d) = (IRegistry(registry), SETTLEMENT, ANCHOR, DEMANDS);
        if (zero % 4 == 0) r = IRegistry(address(0));
        else if (zero % 4 == 1) s = address(0);
        else if (zero % 4 == 2) a = address(0);
        else d = address(0);
        vm.expectRevert(Wired.ZeroAddress.selector);
        fresh.wire(r, s, a, d);
    }
}
