// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRandomness} from "../src/interfaces/IRandomness.sol";
import {IRandaoSource} from "../src/interfaces/IRandaoSource.sol";
import {Certifier} from "../src/court/Certifier.sol";
import {Disputes} from "../src/court/Disputes.sol";
import {DisputeStore} from "../src/court/DisputeStore.sol";
import {Proceedings} from "../src/court/Proceedings.sol";
import {Phase, Receipt, Verdict} from "../src/libraries/Types.sol";
import {ICourt} from "../src/interfaces/ICourt.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title From a questioned receipt to a seated committee
/// forge-config: default.fuzz.runs = 8
contract DisputeDrawTest is Courthouse {
    function other(uint256 i) private pure returns (address) {
        return address(uint160(0xC4A1_0000 + i));
    }

    // --- open ---

    function test_opening_stores_what_was_questioned(uint256 salt, bytes32 alt) public {
        vm.assume(alt != 0);
        bytes32 id = openedBy(other(1), salt, alt);
        IDisputes.Dispute memory d = disputes.dispute(id);
        bytes32 receiptId = keccak256(abi.encode(receiptOf(salt)));
        same(d.receiptId, receiptId, "receipt");
        same(id, disputes.disputeId(receiptId), "id");
        same(disputes.disputeAt(disputes.disputeCount() - 1), id, "index");
        same(d.claimedTokensHash, receiptOf(salt).tokensHash, "tokens");
        same(d.claimedOutHash, receiptOf(salt).outHash, "claim");
        same(d.operator, OPERATOR, "operator");
        same(d.challenger, other(1), "challenger");
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
        (address who,) = disputes.challengerOf(id);
        that(who == address(0) && disputes.membersOf(id, 1).length == 0, "nobody");
    }

    function test_a_receipt_is_disputed_once(uint256 salt) public {
        bytes32 id = opened(salt);
        uint256 bond = params.requiredBond(1);
        vm.expectRevert(abi.encodeWithSelector(ICourt.AlreadyDisputed.selector, disputes.dispute(id).receiptId, id));
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
            refusal = abi.encodeWithSelector(ICourt.WindowClosed.selector, guardian.clock(), guardian.clock() - 1);
        } else if (how % 5 == 1) {
            (by, refusal) = (OPERATOR, abi.encodeWithSelector(ICourt.OwnReceipt.selector, OPERATOR));
        } else if (how % 5 == 2) {
            (alt, refusal) = (0, abi.encodeWithSelector(ICourt.EmptyAltCommit.selector));
        } else if (how % 5 == 3) {
            refusal = abi.encodeWithSelector(ICourt.BondMismatch.selector, wei_, bond);
            bond = wei_;
        } else {
            for (uint256 i = 0; i < VERIFIERS - 4; ++i) {
                vm.prank(member(i));
                registry.quit();
            }
            nextEpoch();
            refusal = abi.encodeWithSelector(ICourt.PoolTooSmall.selector, POOL);
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
        uint256 number = disputes.roundOf(id, 1).seedBlock;
        that(number >= block.number + SHORTEST, "not foreseen");
        that(number % EPOCH >= LOOKAHEAD && number % EPOCH <= LOOKAHEAD + (EPOCH - LOOKAHEAD) / 2, "in its epoch");
        that(number <= block.number + SHORTEST + EPOCH, "soon");
        that(source.isAnnounced(number), "announced");
    }

    function test_nobody_draws_before_the_seed_is_proven(uint256 salt, bytes32 mix) public {
        bytes32 id = opened(salt);
        uint256 number = disputes.roundOf(id, 1).seedBlock;
        vm.expectRevert(abi.encodeWithSelector(IRandomness.SeedTooEarly.selector, number, block.number));
        disputes.draw(id, 255);
        vm.roll(number + 1);
        known(number, mix);
        vm.expectRevert(abi.encodeWithSelector(IRandaoSource.SeedNotProven.selector, number));
        disputes.draw(id, 255);
        vm.expectRevert(abi.encodeWithSelector(ICourt.SeedReadable.selector, id, number));
        disputes.rearm(id);
    }

    /// @dev The same seats as in one call, whatever the parts.
    function test_parts_of_a_draw_are_the_draw(uint256 salt, bytes32 mix, uint8 first, uint8 second) public {
        bytes32 id = opened(salt);
        seeded(id, mix);
        address[] memory excluded = new address[](1);
        excluded[0] = address(this);
        uint256 number = disputes.roundOf(id, 1).seedBlock;
        address[] memory want = tree.draw(source.seed(number), number, id, 1, excluded, 0, 5);
        vm.expectRevert(abi.encodeWithSelector(ICourt.NoProgress.selector, id));
        disputes.draw(id, 0);
        disputes.draw(id, bound(first, 1, 4));
        inPhase(id, Phase.DRAWING);
        if (disputes.roundOf(id, 1).drawn < 4) disputes.draw(id, bound(second, 1, 4 - disputes.roundOf(id, 1).drawn));
        disputes.draw(id, type(uint256).max);
        inPhase(id, Phase.COMMIT);
        seatsAre(id, want);
        IDisputes.Round memory r = disputes.roundOf(id, 1);
        same(r.roundSeed, keccak256(abi.encode(source.seed(number), id, uint16(1))), "round seed");
        same(r.commitEnd, guardian.clock() + 1 hours, "commits");
        same(r.revealEnd, r.commitEnd + 30 minutes, "reveals");
        vm.expectRevert(abi.encodeWithSelector(ICourt.WrongPhase.selector, id, Phase.COMMIT, Phase.SEED));
        disputes.draw(id, 1);
        vm.expectRevert(abi.encodeWithSelector(ICourt.WrongPhase.selector, id, Phase.COMMIT, Phase.SEED));
        disputes.rearm(id);
    }

    function seatsAre(bytes32 id, address[] memory want) private view {
        IDisputes.Member[] memory list = members(id);
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
        IDisputes.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            that(list[i].voter != member(VERIFIERS - 1), "challenger");
        }
    }

    // --- seeds that are lost ---

    /// @dev A draw in another epoch than the seed's would take weights that were moved when the seed was known.
    function test_what_was_drawn_is_forgotten_with_its_epoch(uint256 salt, bytes32 mix, uint8 part) public {
        bytes32 id = opened(salt);
        seeded(id, mix);
        disputes.draw(id, bound(part, 1, 4));
        uint256 number = disputes.roundOf(id, 1).seedBlock;
        nextEpoch();
        (bool ok,) = address(disputes).call(abi.encodeCall(disputes.draw, (id, 1)));
        that(!ok, "foreign epoch");
        disputes.rearm(id);
        IDisputes.Round memory r = disputes.roundOf(id, 1);
        that(r.drawn == 0 && r.rearms == 1 && r.seedBlock > number, "named again");
        inPhase(id, Phase.SEED);
        same(members(id).length, 0, "nobody is seated");
        drawn(id, ~mix);
        inPhase(id, Phase.COMMIT);
        address[] memory excluded = new address[](1);
        excluded[0] = address(this);
        seatsAre(id, tree.draw(source.seed(r.seedBlock), r.seedBlock, id, 1, excluded, 0, 5));
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
        vm.expectRevert(abi.encodeWithSelector(ICourt.WrongPhase.selector, id, Phase.AIRGAP, Phase.SEED));
        disputes.rearm(id);
    }

    function lost(bytes32 id) private {
        vm.roll(disputes.roundOf(id, 1).seedBlock);
        nextEpoch();
    }

    // --- pauses ---

    function test_nothing_begins_during_a_pause(uint256 salt, bytes32 mix) public {
        bytes32 id = opened(~salt);
        seeded(id, mix);
        guardian.pause(1 hours);
        uint256 bond = params.requiredBond(1);
        bytes memory refusal = abi.encodeWithSelector(IGuardian.NotNow.selector, true);
        vm.expectRevert(refusal);
        disputes.rearm(id);
        vm.expectRevert(refusal);
        disputes.open{value: bond}(receiptOf(salt), "", 0, new bytes32[](0), "alt");
        passes(1 hours);
        disputes.draw(id, 255);
    }

    /// @dev A guardian that pauses until the epoch of a seed is over has the same committee, which has all of its time.
    function test_no_pause_throws_a_seed_away(uint256 salt, bytes32 mix, uint8 parts_, uint32 longer) public {
        bytes32 id = opened(salt);
        seeded(id, mix);
        uint256 before = vm.snapshotState();
        disputes.draw(id, 255);
        bytes32 want = keccak256(abi.encode(members(id)));
        vm.revertToState(before);
        uint64 duration = uint64(bound(longer, 1, 1 days));
        guardian.pause(duration);
        disputes.draw(id, bound(parts_, 1, 5));
        if (disputes.phaseOf(id) == Phase.DRAWING) disputes.draw(id, 255);
        nextEpoch();
        passes(duration);
        inPhase(id, Phase.COMMIT);
        same(keccak256(abi.encode(members(id))), want, "the committee of that seed");
        same(disputes.roundOf(id, 1).commitEnd, guardian.clock() + params.times(1).commitTime, "all of its time");
        vm.expectPartialRevert(ICourt.WrongPhase.selector);
        disputes.rearm(id);
    }

    // --- two halves ---

    function test_the_halves_know_the_same_contracts(address authority) public {
        vm.assume(authority != address(manager));
        DisputeStore.Parts memory changed = parts();
        changed.authority = authority;
        Proceedings half = new Proceedings(changed);
        bytes32 want = keccak256(abi.encode(parts()));
        vm.expectRevert(abi.encodeWithSelector(Disputes.OtherParts.selector, keccak256(abi.encode(changed)), want));
        new Disputes(parts(), half);
    }

    /// @dev Alone the other half has no disputes, and no neighbour listens to it.
    function test_the_other_half_is_nothing_alone(uint256 salt) public {
        Proceedings half = Disputes(payable(address(disputes))).PROCEEDINGS();
        uint64 batchId = docket.anchor(OPERATOR, ENVIRONMENT, 1);
        uint256 bond = params.requiredBond(1);
        Receipt memory r = receiptOf(salt);
        vm.expectPartialRevert(bytes4(keccak256("NotAuthorised(address)")));
        half.open{value: bond}(r, "", batchId, new bytes32[](0), "alt");
        (bool ok,) = address(disputes).call{value: 1}("");
        that(!ok, "no ether without a step");
    }
}
