// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StakeTree} from "../src/stake/StakeTree.sol";
import {DrawnAccounts} from "./DrawnAccounts.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {IRandaoSource} from "../src/interfaces/IRandaoSource.sol";
import {Disputes} from "../src/court/Disputes.sol";
import {Phase, Receipt, Verdict} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title From a questioned receipt to a seated committee
/// forge-config: default.fuzz.runs = 8
contract DisputeDrawTest is Courthouse {
    using DrawnAccounts for StakeTree;

    function other(uint256 i) private pure returns (address) {
        return address(uint160(0xC4A1_0000 + i));
    }

    // --- open ---

    function test_opening_stores_what_was_questioned(uint256 salt, bytes32 alt) public {
        vm.assume(alt != 0);
        bytes32 id = openedBy(other(1), salt, alt);
        IDisputes.Dispute memory d = disputes.dispute(id);
        bytes32 receiptId = keccak256(abi.encode(receiptOf(salt)));
        same(id, disputes.disputeId(receiptId), "id");
        same(d.claim, keccak256(abi.encode(receiptOf(salt).tokensHash, receiptOf(salt).outHash)), "claim");
        same(d.operator, OPERATOR, "operator");
        same(d.challenger, other(1), "opener");
        same(d.environment, ENVIRONMENT, "environment");
        same(d.keyEpoch, 7, "key epoch");
        same(d.level * 10 + d.round, 11, "round");
        inPhase(id, Phase.SEED);
        same(docket.openDisputes(d.batchId), 1, "anchor told");
        same(ledger.potOf(id), params.requiredBond(1), "bond");
        same(vault.lockedOf(OPERATOR), 10 ether, "lock");
        (bytes32 found, Phase phase,,) = disputes.receiptStatus(receiptId);
        that(found == id && phase == Phase.SEED, "status");
        disputeThatIsNone(keccak256(abi.encode(id)));
    }

    function disputeThatIsNone(bytes32 id) private view {
        same(uint256(disputes.dispute(id).phase), 0, "none");
        (address who, bool knew) = disputes.challengerOf(id);
        that(who == address(0) && !knew && rounds.membersOf(id, 1).length == 0, "nobody");
        same(rounds.claimOf(id), bytes32(0), "no claim");
    }

    function test_a_receipt_is_disputed_once(uint256 salt) public {
        bytes32 id = opened(salt);
        uint256 bond = params.requiredBond(1);
        vm.expectRevert(
            abi.encodeWithSelector(IDisputes.AlreadyDisputed.selector, keccak256(abi.encode(receiptOf(salt))), id)
        );
        disputes.open{value: bond}(receiptOf(salt), "", 0, new bytes32[](0), "alt");
    }

    /// @dev In turn: late, by the operator, without an answer of one's own, with another bond, in a pool that shrank.
    function test_nothing_else_opens(uint256 salt, uint8 how, uint96 wei_) public {
        uint64 batchId = docket.anchor(OPERATOR, ENVIRONMENT, 1);
        Receipt memory r = receiptOf(salt);
        (uint256 bond, address by, bytes32 alt) = (params.requiredBond(1), address(this), bytes32("alt"));
        vm.assume(wei_ != bond);
        bytes memory refusal;
        if (how % 5 == 0) {
            docket.closeWindows(guardian.clock() - 1);
            refusal = abi.encodeWithSelector(IDisputes.WindowClosed.selector, guardian.clock(), guardian.clock() - 1);
        } else if (how % 5 == 1) {
            (by, refusal) = (OPERATOR, abi.encodeWithSelector(IDisputes.OwnReceipt.selector, OPERATOR));
        } else if (how % 5 == 2) {
            (alt, refusal) = (0, abi.encodeWithSelector(IDisputes.EmptyAltCommit.selector));
        } else if (how % 5 == 3) {
            refusal = abi.encodeWithSelector(IDisputes.BondMismatch.selector, wei_, bond);
            bond = wei_;
        } else {
            for (uint256 i = 0; i < VERIFIERS - 4; ++i) {
                vm.prank(member(i));
                registry.quit();
            }
            nextEpoch();
            refusal = abi.encodeWithSelector(IDisputes.PoolTooSmall.selector, POOL);
        }
        vm.deal(by, bond);
        vm.prank(by);
        vm.expectRevert(refusal);
        disputes.open{value: bond}(r, "", batchId, new bytes32[](0), alt);
        docket.closeWindows(guardian.clock());
        if (how % 5 != 4) opened(salt);
    }

    // --- seeds ---

    function test_the_seed_cannot_be_foreseen_and_leaves_time_for_the_draw(uint256 salt, uint16 ahead) public {
        vm.roll(block.number + ahead % 500);
        bytes32 id = opened(salt);
        uint256 number = rounds.roundOf(id, 1).seedBlock;
        that(number >= block.number + SHORTEST, "not foreseen");
        that(number % EPOCH >= LOOKAHEAD && number % EPOCH <= LOOKAHEAD + (EPOCH - LOOKAHEAD) / 2, "in its epoch");
        that(number <= block.number + SHORTEST + EPOCH, "soon");
    }

    /// @dev Fails when a header is believed before it is the chain's.
    function test_nobody_draws_before_the_seed_block_or_by_another_header(uint256 salt, bytes32 mix) public {
        bytes32 id = opened(salt);
        uint256 number = rounds.roundOf(id, 1).seedBlock;
        bytes memory right = header(number, mix);
        vm.expectRevert(abi.encodeWithSelector(IRandaoSource.SeedTooEarly.selector, number, block.number));
        disputes.draw(id, 255, right);
        vm.roll(number + 1);
        known(number, mix);
        bytes memory wrong = header(number, ~mix);
        vm.expectRevert(
            abi.encodeWithSelector(IRandaoSource.WrongHeader.selector, number, keccak256(wrong), keccak256(right))
        );
        disputes.draw(id, 255, wrong);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.SeedReadable.selector, id, number));
        disputes.rearm(id);
    }

    /// @dev The same seats as in one call, whatever the parts.
    function test_parts_of_a_draw_are_the_draw(uint256 salt, bytes32 mix, uint8 first, uint8 second) public {
        bytes32 id = opened(salt);
        seeded(id, mix);
        address[] memory excluded = new address[](1);
        excluded[0] = address(this);
        uint256 number = rounds.roundOf(id, 1).seedBlock;
        address[] memory want = tree.draw(source.seedOf(number, headers[id]), number, id, 1, excluded, 0, 5);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.NoProgress.selector, id));
        disputes.draw(id, 0, headers[id]);
        disputes.draw(id, bound(first, 1, 4), headers[id]);
        inPhase(id, Phase.DRAWING);
        if (rounds.roundOf(id, 1).drawn < 4) {
            disputes.draw(id, bound(second, 1, 4 - rounds.roundOf(id, 1).drawn), headers[id]);
        }
        disputes.draw(id, type(uint256).max, headers[id]);
        inPhase(id, Phase.COMMIT);
        seatsAre(id, want);
        IRounds.Round memory r = rounds.roundOf(id, 1);
        same(r.roundSeed, keccak256(abi.encode(source.seedOf(number, headers[id]), id, uint16(1))), "round seed");
        same(r.commitEnd, guardian.clock() + 1 hours, "commits");
        same(r.revealEnd, r.commitEnd + 30 minutes, "reveals");
        vm.expectRevert(abi.encodeWithSelector(IDisputes.WrongPhase.selector, id, Phase.COMMIT, Phase.SEED));
        disputes.draw(id, 1, headers[id]);
        vm.expectRevert(abi.encodeWithSelector(IDisputes.WrongPhase.selector, id, Phase.COMMIT, Phase.SEED));
        disputes.rearm(id);
    }

    function seatsAre(bytes32 id, address[] memory want) private view {
        IRounds.Member[] memory list = members(id);
        uint256 seats = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            seats += list[i].seats;
            for (uint256 seat = 0; seat < want.length; ++seat) {
                that((list[i].seatMask & (1 << seat) != 0) == (want[seat] == list[i].voter), "holder");
            }
        }
        same(seats, want.length, "all seats");
    }

    function test_the_openers_own_account_is_never_drawn(uint256 salt, bytes32 mix) public {
        bytes32 id = openedBy(member(VERIFIERS - 1), salt, "alt");
        drawn(id, mix);
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            that(list[i].voter != member(VERIFIERS - 1), "opener");
        }
    }

    // --- seeds that are lost ---

    /// @dev A draw in another epoch than the seed's would take weights that were moved when the seed was known.
    function test_what_was_drawn_is_forgotten_with_its_epoch(uint256 salt, bytes32 mix, uint8 part) public {
        bytes32 id = opened(salt);
        seeded(id, mix);
        disputes.draw(id, bound(part, 1, 4), headers[id]);
        uint256 number = rounds.roundOf(id, 1).seedBlock;
        nextEpoch();
        (bool ok,) = address(disputes).call(abi.encodeCall(disputes.draw, (id, 1, headers[id])));
        that(!ok, "foreign epoch");
        disputes.rearm(id);
        IRounds.Round memory r = rounds.roundOf(id, 1);
        that(r.drawn == 0 && r.rearms == 1 && r.seedBlock > number, "named again");
        inPhase(id, Phase.SEED);
        same(members(id).length, 0, "nobody is seated");
        drawn(id, ~mix);
        inPhase(id, Phase.COMMIT);
        address[] memory excluded = new address[](1);
        excluded[0] = address(this);
        seatsAre(id, tree.draw(source.seedOf(r.seedBlock, headers[id]), r.seedBlock, id, 1, excluded, 0, 5));
    }

    /// @dev Whoever keeps draws out cannot choose for ever.
    function test_three_seeds_can_be_lost(uint256 salt) public {
        bytes32 id = opened(salt);
        for (uint256 i = 0; i < 3; ++i) {
            lost(id);
            disputes.rearm(id);
        }
        lost(id);
        disputes.rearm(id);
        inPhase(id, Phase.AIRGAP);
        same(uint256(disputes.dispute(id).verdict), uint256(Verdict.DRAW), "draw");
        vm.expectRevert(abi.encodeWithSelector(IDisputes.WrongPhase.selector, id, Phase.AIRGAP, Phase.SEED));
        disputes.rearm(id);
    }

    function lost(bytes32 id) private {
        vm.roll(rounds.roundOf(id, 1).seedBlock);
        nextEpoch();
    }

    // --- pauses ---

    function test_nothing_begins_during_a_pause(uint256 salt, bytes32 mix) public {
        bytes32 id = opened(~salt);
        seeded(id, mix);
        guardian.pause(1 hours);
        bytes memory refusal = abi.encodeWithSelector(IGuardian.NotNow.selector, true);
        vm.expectRevert(refusal);
        disputes.rearm(id);
        uint256 bond = params.requiredBond(1);
        vm.expectRevert(refusal);
        disputes.open{value: bond}(receiptOf(salt), "", 0, new bytes32[](0), "alt");
        passes(1 hours);
        disputes.draw(id, 255, headers[id]);
    }

    /// @dev A guardian that pauses until the epoch of a seed is over has the same committee, which has all of its time.
    function test_no_pause_throws_a_seed_away(uint256 salt, bytes32 mix, uint8 parts_, uint32 longer) public {
        bytes32 id = opened(salt);
        seeded(id, mix);
        uint256 before = vm.snapshotState();
        disputes.draw(id, 255, headers[id]);
        bytes32 want = keccak256(abi.encode(members(id)));
        vm.revertToState(before);
        uint64 duration = uint64(bound(longer, 1, 1 days));
        guardian.pause(duration);
        disputes.draw(id, bound(parts_, 1, 5), headers[id]);
        if (disputes.phaseOf(id) == Phase.DRAWING) disputes.draw(id, 255, headers[id]);
        nextEpoch();
        passes(duration);
        inPhase(id, Phase.COMMIT);
        same(keccak256(abi.encode(members(id))), want, "the committee of that seed");
        same(rounds.roundOf(id, 1).commitEnd, guardian.clock() + params.times(1).commitTime, "all of its time");
        vm.expectPartialRevert(IDisputes.WrongPhase.selector);
        disputes.rearm(id);
    }
}

/// @title A seed is named within the time that its source promises to remember it
/// forge-config: default.fuzz.runs = 8
contract FarSeedTest is Courthouse {
    function longest() internal pure override returns (uint256) {
        return 60;
    }

    /// @dev Late in an epoch the seed is of the next one; from there on it is near enough again.
    function test_no_seed_is_named_that_lies_too_far(uint256 salt, uint8 later) public {
        uint256 here = block.number / EPOCH * EPOCH + EPOCH + bound(later, 52, 59);
        vm.roll(here);
        uint64 batchId = docket.anchor(OPERATOR, ENVIRONMENT, 1);
        uint256 bond = params.requiredBond(1);
        uint256 next = (here / EPOCH + 1) * EPOCH + LOOKAHEAD;
        vm.expectRevert(abi.encodeWithSelector(IDisputes.SeedTooFar.selector, next, here + 60));
        disputes.open{value: bond}(receiptOf(salt), "", batchId, new bytes32[](0), "alt");
        vm.roll(next - 60);
        inPhase(opened(salt), Phase.SEED);
    }
}
