// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {OperatorSet} from "../../src/stake/eigenlayer/IEigenLayer.sol";
import {EigenLayerStake} from "../../src/stake/eigenlayer/EigenLayerStake.sol";
import {StakeBook} from "../../src/stake/StakeBook.sol";
import {FakeEigenLayer} from "./FakeEigenLayer.sol";
import {WrappedEther} from "./WrappedEther.sol";
import {EigenStaking} from "./EigenStaking.sol";

/// @title What EigenLayer takes reaches the pot of its dispute, once, whatever it refuses meanwhile
contract EigenMoneyTest is EigenStaking {
    function late() private view returns (uint256) {
        return ledger.potOf(adapter.LATE());
    }

    function clears(uint256 slashId) private {
        eigen.clearBurnOrRedistributableSharesByStrategy(OperatorSet(address(eigen), 7), slashId, address(eigen));
    }

    function test_a_slash_takes_what_was_asked_or_all_there_is(
        uint96 amount,
        uint64 magnitude,
        uint96 want,
        uint8 queued,
        uint96 earned
    ) public {
        uint256 staked_ = bound(amount, 1 ether, 1_000_000 ether);
        delegated(who, staked_, uint64(bound(magnitude, 1e9, ALL)));
        eigen.queueWithdrawal(who, staked_ * queued / 512);
        vm.deal(address(this), earned);
        eigen.earn{value: earned}();
        uint256 all = adapter.slashableOf(who);
        uint256 asked = bound(want, 1, 2 * staked_);
        uint256 taken = slashed(who, 0, asked);
        that(taken <= asked, "never more");
        near(taken, asked < all ? asked : all, grain(staked_ + earned), "taken");
        same(ledger.potOf(REF), taken, "what was said, to the wei");
        near(all - adapter.slashableOf(who), taken, grain(staked_ + earned), "gone");
        uint256 rest = token.balanceOf(address(adapter));
        that(rest <= grain(staked_ + earned), "rounding");
        same(adapter.sweep(), rest, "swept");
        same(late(), rest, "to the pot of nobody");
        same(token.balanceOf(address(adapter)) + address(adapter).balance, 0, "nothing stays");
    }

    function test_a_pause_defers_a_slash_and_is_no_amnesty(uint96 amount, uint96 want, bool delayed) public {
        uint256 staked_ = bound(amount, 1 ether, 1_000 ether);
        delegated(who, staked_, ALL);
        uint256 asked = bound(want, 1e6, staked_);
        eigen.pause(true, false, 0);
        same(slashed(who, 0, asked), 0, "taken");
        same(adapter.dueOf(who, REF), asked, "due");
        same(adapter.retry(who, REF), 0, "still paused");
        same(adapter.dueOf(who, REF), asked, "still due");
        eigen.pause(false, delayed, 0);
        near(adapter.retry(who, REF), asked, grain(staked_), "later");
        eigen.pause(false, false, 0);
        if (delayed) adapter.collect(1);
        near(late(), asked, grain(staked_), "pot of nobody");
        same(ledger.potOf(REF), 0, "its dispute was settled without it");
        vm.expectRevert(abi.encodeWithSelector(EigenLayerStake.NothingDue.selector, who, REF));
        adapter.retry(who, REF);
    }

    function test_a_payment_that_waits_is_brought_once_by_anybody(uint96 want, uint8 delay, bool stranger, uint96 gift)
        public
    {
        delegated(who, 10 ether, ALL);
        uint256 asked = bound(want, 1e6, 10 ether);
        uint256 wait = uint256(delay) + 1;
        eigen.pause(false, false, wait);
        uint256 taken = slashed(who, 0, asked);
        near(taken, asked, grain(10 ether), "taken, if not here");
        same(ledger.potOf(REF), 0, "not here");
        (bytes32 ref, uint256 owed) = adapter.owedOf(1);
        that(ref == REF && owed == taken, "owed");
        vm.expectRevert(abi.encodeWithSelector(EigenLayerStake.PaymentShort.selector, 1, 0, taken));
        adapter.collect(1);
        vm.roll(block.number + wait);
        if (stranger) clears(1);
        gives(gift);
        same(adapter.collect(1), taken, "collected");
        same(ledger.potOf(REF), taken, "in the dispute's pot");
        vm.expectRevert(abi.encodeWithSelector(EigenLayerStake.NothingOwed.selector, 1));
        adapter.collect(1);
        near(adapter.sweep(), gift, grain(10 ether), "the gift");
        same(adapter.totalOwed() + token.balanceOf(address(adapter)), 0, "all settled");
    }

    /// @dev Payments of several disputes come in any order and by any hand; each pot gets its own.
    function test_each_pot_gets_its_own(uint96[4] calldata wants, uint8 cleared, uint8 order) public {
        uint256[4] memory taken;
        eigen.pause(false, true, 0);
        for (uint256 i = 0; i < 4; ++i) {
            delegated(person(i), 10 ether, ALL);
            taken[i] = slashed(person(i), 0, bound(wants[i], 1e6, 10 ether), bytes32(i + 1));
        }
        same(adapter.totalOwed(), taken[0] + taken[1] + taken[2] + taken[3], "owed");
        eigen.pause(false, false, 0);
        for (uint256 i = 0; i < 4; ++i) {
            if (cleared >> i & 1 == 1) clears(i + 1);
            adapter.sweep();
        }
        for (uint256 i = 0; i < 4; ++i) {
            uint256 k = (i + order) % 4;
            adapter.collect(k + 1);
            same(ledger.potOf(bytes32(k + 1)), taken[k], "its own");
        }
        same(adapter.totalOwed(), 0, "all");
    }

    /// @dev A gift is no part of a slash, and what is owed is no gift.
    function test_tokens_that_lie_there_are_nobodys_slash(uint96 gift, bool refused) public {
        delegated(who, 10 ether, ALL);
        gives(gift);
        eigen.pause(false, refused, 0);
        uint256 taken = slashed(who, 0, 1 ether);
        same(ledger.potOf(REF), refused ? 0 : taken, "pot");
        uint256 swept = adapter.sweep();
        if (refused) same(swept, gift > taken ? gift - taken : 0, "what is owed stays");
        else near(swept, gift, grain(10 ether), "the gift");
    }

    /// @dev A call that is starved leaves 1/64 of the gas, which is enough for the rest where a slash takes very much.
    /// forge-config: default.fuzz.runs = 8
    function test_nobody_can_starve_a_slash(uint24 limit) public {
        delegated(who, 10 ether, ALL);
        eigen.labour(60_000_000);
        uint256 given = bound(limit, 55_000_000, 70_000_000);
        vm.prank(SETTLEMENT);
        try adapter.slash{gas: given}(who, 0, 1 ether, REF) returns (uint256 taken) {
            near(taken, 1 ether, grain(10 ether), "taken");
        } catch {
            same(eigen.slashes(), 0, "nothing happened");
        }
        same(adapter.dueOf(who, REF), 0, "not deferred");
    }

    function test_a_set_that_does_not_name_the_adapter_is_refused(address slasher, address recipient, bool which)
        public
    {
        vm.assume(slasher != address(0) && recipient != address(0));
        EigenLayerStake other = fresh(MAX_AGE, LONGEST);
        vm.assume(slasher != address(other) && recipient != address(other));
        (bytes32 role, address have) = which ? (bytes32("slasher"), slasher) : (bytes32("recipient"), recipient);
        if (which) eigen.create(slasher, address(other));
        else eigen.create(address(other), recipient);
        vm.expectRevert(abi.encodeWithSelector(EigenLayerStake.WrongRole.selector, role, have));
        other.wire(registry, SETTLEMENT, ANCHOR, DEMANDS);
    }

    function test_delays_that_are_too_short_are_refused(uint32 maxAge, uint32 longest) public {
        uint256 live = params.longestLive();
        uint32 age = uint32(bound(maxAge, 0, 2 * DEALLOCATION_DELAY));
        uint32 l = uint32(bound(longest, live - 1 days, live + 8 days));
        uint256 horizon = age + (uint256(l) + 11) / 12;
        bytes4 short = EigenLayerStake.DelayTooShort.selector;
        if (l < live) {
            vm.expectRevert(abi.encodeWithSelector(short, bytes32("dispute"), l, live));
        } else if (horizon > DEALLOCATION_DELAY) {
            vm.expectRevert(abi.encodeWithSelector(short, bytes32("deallocation"), DEALLOCATION_DELAY, horizon));
        } else if (horizon > WITHDRAWAL_DELAY) {
            vm.expectRevert(abi.encodeWithSelector(short, bytes32("withdrawal"), WITHDRAWAL_DELAY, horizon));
        }
        fresh(age, l);
    }

    /// @dev Any token has balances; only wrapped ether can be made ether again.
    function test_a_strategy_of_another_token_is_refused() public {
        eigen = new FakeEigenLayer(WrappedEther(address(new PlainToken())), DEALLOCATION_DELAY, WITHDRAWAL_DELAY);
        vm.expectRevert(abi.encodeWithSelector(EigenLayerStake.WrongToken.selector, eigen.underlyingToken()));
        fresh(MAX_AGE, LONGEST);
    }

    function test_stake_enters_and_leaves_elsewhere(address from, uint96 amount, uint8 what) public {
        vm.assume(from != address(token));
        vm.deal(from, amount);
        vm.prank(from);
        if (what % 4 != 3) vm.expectRevert(EigenLayerStake.StakedElsewhere.selector);
        if (what % 4 == 0) {
            adapter.deposit{value: amount}();
        } else if (what % 4 == 1) {
            adapter.requestUnbond(amount);
        } else if (what % 4 == 2) {
            adapter.finishUnbond();
        } else {
            (bool ok, bytes memory why) = address(adapter).call{value: amount}("");
            bytes memory want = abi.encodeWithSelector(EigenLayerStake.UnexpectedPayment.selector, from);
            that(!ok && keccak256(why) == keccak256(want), "unexpected");
        }
        (uint256 leaving, uint256 due, uint64 nextAt) = adapter.unbondingOf(from);
        same(leaving + due + nextAt + adapter.totalUnbonding(), 0, "nothing leaves here");
    }
}

/// @title A token that is no wrapped ether
contract PlainToken {
    mapping(address account => uint256) public balanceOf;
}

/// @title Wrapped ether that keeps a part of what is sent
contract TaxedEther is WrappedEther {
    uint256 public tax;

    function setTax(uint256 bps) external {
        tax = bps;
    }

    function transfer(address to, uint256 amount) public override returns (bool) {
        balanceOf[msg.sender] -= amount;
        balanceOf[to] += amount - amount * tax / 10_000;
        return true;
    }
}

/// @title A token with a fee on transfer: what did not arrive is no money
contract EigenTaxTest is EigenStaking {
    function newToken() internal override returns (WrappedEther) {
        return new TaxedEther();
    }

    function test_a_token_that_keeps_a_part_pays_no_pot_before_it_is_made_up(uint96 want, uint16 bps) public {
        delegated(who, 10 ether, ALL);
        uint256 tax = bound(bps, 1, 10_000);
        TaxedEther(address(token)).setTax(tax);
        uint256 taken = slashed(who, 0, bound(want, 0.001 ether, 10 ether));
        same(ledger.potOf(REF), 0, "nothing is credited");
        uint256 lying = token.balanceOf(address(adapter));
        vm.expectRevert(abi.encodeWithSelector(EigenLayerStake.PaymentShort.selector, 1, lying, taken));
        adapter.collect(1);
        same(adapter.sweep(), 0, "and what came is nobody's gift");
        TaxedEther(address(token)).setTax(0);
        gives(taken - lying);
        same(adapter.collect(1), taken, "whole");
        same(ledger.potOf(REF), taken, "in its pot");
    }
}
