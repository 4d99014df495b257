// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../src/libraries/Types.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {DemandsBase} from "./Demands.t.sol";

/// @title Who keeps an operator from posting, and demands what it may not post, gains nothing
/// @dev This contract is settlement: it locks what a dispute locks.
contract FrozenOperatorTest is DemandsBase {
    function setUp() public override {
        super.setUp();
        // What an operator is told to hold: a minimum, one slash, and the collateral of what is open.
        vm.prank(operator);
        vault.requestUnbond(70 ether - 0.1 ether);
    }

    /// @dev Disputes bind all of the stake, each for a bond that comes back or costs little beside it.
    function disputed(uint256 disputes) private {
        for (uint256 i = 0; i < disputes; ++i) {
            vault.lock(operator, 10 ether, bytes32(i + 1));
        }
    }

    function test_who_disputes_all_stake_freezes_no_post(uint8 disputes) public {
        Receipt memory r = receipt(1);
        disputed(bound(disputes, 1, 200));
        vm.warp(uint256(r.anchorBy) + 1);
        anchorDemanded(r);
        uint64 batchId = anchored(r);
        bytes memory sig = signature(r);
        vm.prank(operator);
        demands.answerAnchor(r, sig, batchId, none());
        same(ledger.creditOf(demander), 0, "no share, and the bond is lost");
        same(ledger.creditOf(operator), BOND, "who was honest has it");
        same(vault.stakeOf(operator), 30.1 ether, "nothing was slashed");
    }

    /// @dev One slash is out of reach for posting as soon as anything is disputed; a second is not.
    function test_locks_take_one_slash_of_the_free_stake_at_most(uint96[3] calldata locks, uint96 collateral) public {
        uint256 c = bound(collateral, 0, 0.1 ether);
        vault.reserve(operator, 7, c, 20 ether);
        uint256 sum = 0;
        for (uint256 i = 0; i < 3; ++i) {
            sum += vault.lock(operator, locks[i], bytes32(i));
        }
        uint256 shielded = sum < 10 ether ? sum : 10 ether;
        same(vault.freeStakeOf(operator), 30.1 ether - c - shielded, "free to post");
        vm.expectRevert(
            abi.encodeWithSelector(IStakeSource.StakeTooSmall.selector, operator, 30.1 ether - c - shielded, 31 ether)
        );
        vault.reserve(operator, 8, 31 ether, 0);
    }

    /// @dev What they are for stays: as long as anything is disputed, no more leaves than they spare.
    function test_locks_stop_exits_whatever_they_leave_to_post(uint8 disputes) public {
        uint256 locked = bound(disputes, 1, 200) * 10 ether;
        disputed(locked / 10 ether);
        vm.warp(block.timestamp + 14 days + 1 hours);
        uint256 left = locked < 100 ether ? 100 ether - locked : 0;
        bytes memory why = abi.encodeWithSelector(IStakeSource.StakeBound.selector, operator, locked, 100 ether);
        if (left == 0) vm.expectRevert(why);
        vm.prank(operator);
        uint256 paid = vault.finishUnbond();
        if (left != 0) same(paid, left < 69.9 ether ? left : 69.9 ether, "no more than they spare");
    }
}

/// @title A pool that is opened for one transaction, to demand what could not be posted
contract OpenedForOneDemandTest is DemandsBase {
    bytes32 private constant MACHINE = keccak256(abi.encode("platform", uint256(0)));

    function quits() private {
        vm.prank(verifier(0));
        registry.quit();
    }

    function joins() private {
        vm.prank(verifier(0));
        registry.join(POOL, MACHINE, MEASUREMENT);
    }

    function demandedInPassing() private returns (Receipt memory r, bytes32 subject) {
        r = receipt(1);
        subject = demands.anchorSubject(anchor.receiptId(r));
        quits();
        vm.warp(uint256(r.anchorBy) + 1);
        joins();
        anchorDemanded(r);
        quits();
    }

    /// @dev When it stops again, what waits can be posted for as long as the demand gives, judged or not.
    function test_who_opens_a_pool_for_one_demand_leaves_the_whole_time(uint16 before) public {
        (Receipt memory r, bytes32 subject) = demandedInPassing();
        vm.warp(block.timestamp + bound(before, 0, 1 hours));
        uint64 batchId = anchored(r);
        bytes memory sig = signature(r);
        vm.prank(operator);
        demands.answerAnchor(r, sig, batchId, none());
        isState(subject, IDemands.State.ANSWERED);
        same(ledger.creditOf(operator), BOND, "the demander's bond");
    }
}

/// @title An operator whom disputes convict has its stake slashed by a friend first
contract OwnReportTest is DemandsBase {
    address private accomplice = address(0xACC0);

    function reported(uint64 seq) private {
        (Receipt memory a, Receipt memory b) = (receipt(seq), receipt(seq));
        b.reqHash = keccak256("another");
        (bytes memory x, bytes memory y) = (signature(a), signature(b));
        vm.prank(accomplice);
        demands.equivocation(a, x, b, y);
    }

    /// @dev Of what disputes lock it has nothing back; of the rest an honest reporter has what it always had.
    function test_who_reports_itself_has_nothing_of_what_disputes_lock(uint8 disputes, uint8 reports, uint96 leaving)
        public
    {
        uint256 locked = bound(disputes, 0, 10) * 10 ether;
        for (uint256 i = 0; i < locked / 10 ether; ++i) {
            vault.lock(operator, 10 ether, bytes32(i + 1));
        }
        vm.prank(operator);
        vault.requestUnbond(bound(leaving, 1, 100 ether));
        uint256 count = bound(reports, 1, 10);
        for (uint64 i = 0; i < count; ++i) {
            reported(i + 1);
        }
        uint256 taken = count * 10 ether;
        uint256 spare = 100 ether - locked;
        uint256 share = (taken < spare ? taken : spare) * 3 / 10;
        same(ledger.creditOf(accomplice), share, "its share, of what nothing locks");
        same(ledger.totalBurned(), taken - share, "the rest is nobody's");
        balanced();
    }

    /// @dev The same by a batch of its own that it leaves unanswered.
    function test_who_lets_its_own_demand_expire_has_nothing_of_what_disputes_lock(uint96 locked) public {
        uint256 sum = bound(locked, 0, 100 ether);
        Receipt memory r = receipt(1);
        anchored(r);
        vm.deal(accomplice, BOND);
        vm.prank(accomplice);
        demands.demandList{value: BOND}(0);
        bytes32 subject = demands.listSubject(0);
        vault.lock(operator, sum, "dispute");
        vm.warp(demands.demand(subject).deadline + 1);
        demands.expire(subject);
        uint256 spare = 100 ether - sum;
        same(
            ledger.creditOf(accomplice), BOND + (spare < 10 ether ? spare : 10 ether) * 3_000 / 10_000, "bond and share"
        );
        same(vault.stakeOf(operator), 90 ether, "slashed all the same");
        balanced();
    }

    /// @dev Where less was there at first, each part counts by what was locked when it was taken.
    function test_each_part_of_a_report_is_shared_by_what_was_locked_then(uint96 left, uint96 locked) public {
        uint256 first = bound(left, 1, 10 ether - 1);
        vault.slash(operator, 0, 100 ether - first, "verdict");
        uint256 sum = vault.lock(operator, bound(locked, 0, 20 ether), "dispute");
        reported(1);
        same(ledger.creditOf(accomplice), (first - sum) * 3 / 10, "of the first part");
        vault.unlock(operator, sum, "dispute");
        stake(operator, 50 ether);
        reported(1);
        same(
            ledger.creditOf(accomplice), (first - sum) * 3 / 10 + (10 ether - first) * 3 / 10, "and of the second, all"
        );
        balanced();
    }
}
