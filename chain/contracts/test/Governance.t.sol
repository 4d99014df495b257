// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {IAccessManager} from "@openzeppelin/contracts/access/manager/IAccessManager.sol";
import {IGovernor} from "@openzeppelin/contracts/governance/IGovernor.sol";
import {TimelockController} from "@openzeppelin/contracts/governance/TimelockController.sol";
import {ParamLaw} from "../src/governance/ParamLaw.sol";
import {ParamSet, Verdict} from "../src/libraries/Types.sol";
import {BytewiseGovernor} from "../src/governance/BytewiseGovernor.sol";
import {Charter} from "../src/governance/Charter.sol";
import {GovernanceToken} from "../src/governance/GovernanceToken.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IParams} from "../src/interfaces/IParams.sol";
import {CourtRoom} from "./CourtRoom.sol";
import {Defaults} from "./Defaults.sol";
import {Duties} from "./Duties.sol";

/// @title Votes over parameters and movers, and who can do nothing
contract GovernanceTest is CourtRoom {
    uint256 private constant SUPPLY = 1_000_000;
    uint48 private constant VOTING_DELAY = 10;
    uint32 private constant VOTING_PERIOD = 100;
    address private constant PAUSER = address(0x6A4D);
    address private constant CURATOR = address(0xC0DE);
    bytes32 private constant WHY = keccak256("why");

    GovernanceToken private token;
    BytewiseGovernor private governor;
    TimelockController private short;
    TimelockController private long;
    Charter private charter;
    Charter.Governed private governed;

    /// @dev The room's manager is this contract's; the charter takes it over.
    function setUp() public override {
        super.setUp();
        vm.roll(1_000);
        charter = new Charter();
        token = new GovernanceToken(address(this), SUPPLY);
        (short, long) = timelocks(charter.SHORT_DELAY(), charter.LONG_DELAY());
        governor = new BytewiseGovernor(token, short, VOTING_DELAY, VOTING_PERIOD, SUPPLY / 100, 4);
        short.grantRole(short.PROPOSER_ROLE(), address(governor));
        short.renounceRole(short.DEFAULT_ADMIN_ROLE(), address(this));
        governed = Duties.governed(params, guardian, ledger, vault, address(vault.registry()), address(court));
        manager.grantRole(manager.ADMIN_ROLE(), address(charter), 0);
        charter.establish(manager, governed, Charter.Holders(short, long, PAUSER, CURATOR));
        manager.renounceRole(manager.ADMIN_ROLE(), address(this));
        token.delegate(address(this));
        vm.roll(block.number + 1);
    }

    function timelocks(uint256 shortDelay, uint256 longDelay) private returns (TimelockController, TimelockController) {
        address[] memory anybody = new address[](1);
        address[] memory proposers = new address[](1);
        TimelockController first = new TimelockController(shortDelay, new address[](0), anybody, address(this));
        proposers[0] = address(first);
        return (first, new TimelockController(longDelay, proposers, anybody, address(0)));
    }

    function proposal(address target, bytes memory data)
        private
        pure
        returns (address[] memory targets, uint256[] memory values, bytes[] memory calls)
    {
        (targets, values, calls) = (new address[](1), new uint256[](1), new bytes[](1));
        (targets[0], calls[0]) = (target, data);
    }

    /// @dev From the proposal to the queue of the short timelock.
    function queued(address target, bytes memory data) private {
        (address[] memory t, uint256[] memory v, bytes[] memory c) = proposal(target, data);
        uint256 id = governor.propose(t, v, c, "why");
        vm.roll(block.number + VOTING_DELAY + 1);
        governor.castVote(id, 1);
        vm.roll(block.number + VOTING_PERIOD + 1);
        governor.queue(t, v, c, WHY);
    }

    function execute(address target, bytes memory data) private {
        (address[] memory t, uint256[] memory v, bytes[] memory c) = proposal(target, data);
        vm.prank(address(0xAB0D1));
        governor.execute(t, v, c, WHY);
    }

    /// @dev What a vote decided and the governor refuses.
    function refusedByVote(bytes memory data, bytes memory why) private {
        queued(address(governor), data);
        vm.warp(block.timestamp + charter.SHORT_DELAY() + 1);
        vm.expectRevert(why);
        execute(address(governor), data);
    }

    // --- votes that would end all votes ---

    function test_no_vote_leaves_the_timelock_that_holds_the_roles(address other) public {
        bytes memory data = abi.encodeCall(governor.updateTimelock, (TimelockController(payable(other))));
        refusedByVote(data, abi.encodeWithSelector(BytewiseGovernor.TimelockIsFixed.selector, other));
        same(governor.timelock(), address(short), "the timelock");
    }

    function test_a_vote_leaves_settings_with_which_one_can_vote(uint256 value, uint8 which, bool test) public {
        vm.chainId(test ? 31337 : 1);
        (bytes32 name, uint256 least, uint256 most) = _bounds(which % 4, test);
        uint256 largest = which % 4 == 3 ? 100 : which % 4 == 0 ? type(uint256).max : type(uint32).max;
        uint256 have = value % 2 == 0 ? value % least : bound(value, most + 1, largest);
        bytes memory why = abi.encodeWithSelector(BytewiseGovernor.OutOfBounds.selector, name, have, least, most);
        refusedByVote(_setting(which % 4, have), why);
    }

    function test_a_vote_moves_settings_within_their_bounds(uint256 value, uint8 which, bool test) public {
        vm.chainId(test ? 31337 : 1);
        (, uint256 least, uint256 most) = _bounds(which % 4, test);
        value = bound(value, least, most);
        queued(address(governor), _setting(which % 4, value));
        vm.warp(block.timestamp + charter.SHORT_DELAY() + 1);
        execute(address(governor), _setting(which % 4, value));
        uint256[4] memory have =
            [governor.proposalThreshold(), governor.votingDelay(), governor.votingPeriod(), governor.quorumNumerator()];
        same(have[which % 4], value, "set");
    }

    function test_a_governor_begins_within_its_bounds(uint256 value, uint8 which) public {
        vm.chainId(1);
        uint256[4] memory begin = [SUPPLY / 100, uint256(7_200), 50_400, 4];
        uint256 i = which % 4;
        (bytes32 name, uint256 least, uint256 most) = _bounds(i, false);
        uint256 have = bound(value, 0, i == 3 ? 100 : type(uint32).max);
        begin[i] = have;
        bytes memory why = abi.encodeWithSelector(BytewiseGovernor.OutOfBounds.selector, name, have, least, most);
        if (have < least || have > most) vm.expectRevert(why);
        new BytewiseGovernor(token, short, uint48(begin[1]), uint32(begin[2]), begin[0], begin[3]);
    }

    function _bounds(uint256 i, bool test) private pure returns (bytes32 name, uint256 least, uint256 most) {
        if (i == 0) return ("proposalThreshold", 1, SUPPLY / 20);
        if (i == 1) return ("votingDelay", test ? 1 : 300, 302_400);
        if (i == 2) return ("votingPeriod", test ? 1 : 3_600, 1_296_000);
        return ("quorum", 1, 50);
    }

    function _setting(uint256 i, uint256 value) private view returns (bytes memory) {
        if (i == 0) return abi.encodeCall(governor.setProposalThreshold, (value));
        if (i == 1) return abi.encodeCall(governor.setVotingDelay, (uint48(value)));
        if (i == 2) return abi.encodeCall(governor.setVotingPeriod, (uint32(value)));
        return abi.encodeCall(governor.updateQuorumNumerator, (value));
    }

    function changed(uint32 window) private pure returns (bytes memory) {
        ParamSet memory p = Defaults.parameters();
        p.times.window = uint32(bound(window, 1, 1 days));
        return abi.encodeCall(IParams.set, (p));
    }

    /// @dev Vote, queue, delay, and then by anybody.
    function test_a_vote_changes_a_parameter(uint32 window, uint32 wait) public {
        bytes memory data = changed(window);
        queued(address(params), data);
        uint256 w = wait % 6 days;
        vm.warp(block.timestamp + w);
        (address[] memory t, uint256[] memory v, bytes[] memory c) = proposal(address(params), data);
        if (w < 3 days) vm.expectPartialRevert(TimelockController.TimelockUnexpectedOperationState.selector);
        governor.execute(t, v, c, WHY);
        same(params.version(), w < 3 days ? 1 : 2, "only after its delay");
        if (w >= 3 days) same(params.times(2).window, bound(window, 1, 1 days), "as voted");
    }

    function test_too_few_votes_change_nothing(uint32 window, uint256 votes) public {
        uint256 mine = bound(votes, SUPPLY / 100, SUPPLY * 4 / 100 - 1);
        token.transfer(address(0xD0), SUPPLY - mine);
        vm.roll(block.number + 1);
        (address[] memory t, uint256[] memory v, bytes[] memory c) = proposal(address(params), changed(window));
        uint256 id = governor.propose(t, v, c, "why");
        vm.roll(block.number + VOTING_DELAY + 1);
        governor.castVote(id, 1);
        vm.roll(block.number + VOTING_PERIOD + 1);
        vm.expectPartialRevert(IGovernor.GovernorUnexpectedProposalState.selector);
        governor.queue(t, v, c, WHY);
    }

    function test_too_few_votes_propose_nothing(uint32 window, uint256 votes) public {
        uint256 mine = votes % (SUPPLY / 100);
        token.transfer(address(0xD0), SUPPLY - mine);
        vm.roll(block.number + 1);
        (address[] memory t, uint256[] memory v, bytes[] memory c) = proposal(address(params), changed(window));
        vm.expectPartialRevert(IGovernor.GovernorInsufficientProposerVotes.selector);
        governor.propose(t, v, c, "why");
    }

    /// @dev A vote of days starts what only the longest way out of all stake ends.
    function test_a_new_mover_waits_until_everybody_can_have_left(address who, uint32 wait) public {
        vm.assume(who != address(0) && !ledger.isMover(who));
        bytes memory data = abi.encodeCall(ledger.setMover, (who, true));
        bytes memory later = abi.encodeCall(long.schedule, (address(ledger), 0, data, 0, 0, ParamLaw.LONGEST_EXIT));
        queued(address(long), later);
        vm.warp(block.timestamp + 3 days);
        execute(address(long), later);
        uint256 w = wait % (2 * ParamLaw.LONGEST_EXIT);
        vm.warp(block.timestamp + w);
        bool early = w < ParamLaw.LONGEST_EXIT;
        if (early) vm.expectPartialRevert(TimelockController.TimelockUnexpectedOperationState.selector);
        long.execute(address(ledger), 0, data, 0, 0);
        that(ledger.isMover(who) == !early, "a mover then");
        that(w >= params.times(1).unbondDelay || early, "never before stake asked back at the vote is out");
    }

    /// @dev Every restricted function against everybody that holds a role, and somebody who holds none.
    function test_each_function_has_one_role(address stranger, uint8 which) public view {
        Duties.Duty[] memory all = Duties.duties(governed);
        Duties.Duty memory d = all[which % all.length];
        address[4] memory holders = [address(short), address(long), PAUSER, CURATOR];
        for (uint256 i = 0; i < 4; ++i) {
            (bool may, uint32 delay) = manager.canCall(holders[i], d.target, d.selector);
            bool should = holders[i] == holder(d.role);
            that(may == should && delay == 0, "the holder of its role and nobody else");
        }
        address[4] memory none = [address(this), address(charter), address(governor), stranger];
        for (uint256 i = 0; i < 4; ++i) {
            (bool may,) = manager.canCall(none[i], d.target, d.selector);
            that(!may || none[i] == holder(d.role), "nobody else");
        }
    }

    function holder(uint64 role) private view returns (address) {
        if (role == charter.GUARDIAN()) return PAUSER;
        if (role == charter.CURATOR()) return CURATOR;
        return role == charter.SLASHER_ADMIN() ? address(long) : address(short);
    }

    /// @dev Whatever the guardian does to a dispute, nobody wins: bonds go back and no stake moves.
    function test_the_guardian_cannot_pick_a_winner(uint96 staked, uint64 pause, bytes32 moves) public {
        stake(OPERATOR, bound(staked, 1, 40 ether));
        uint256 before = vault.stakeOf(OPERATOR);
        opened(true);
        seated(1, 15, Verdict.REFUNDED, moves);
        vm.prank(PAUSER);
        guardian.pause(uint64(pause % 1 days));
        vm.prank(PAUSER);
        guardian.refund(IDisputes(address(court)), ID);
        same(court.refunds(ID), 1, "the court was told to refund, and nothing else");
        ended(Verdict.REFUNDED, false);
        same(vault.stakeOf(OPERATOR), before, "no stake");
        same(account().toChallenger, account().bond, "the bond");
        vm.prank(PAUSER);
        vm.expectPartialRevert(IAccessManaged.AccessManagedUnauthorized.selector);
        ledger.setMover(PAUSER, true);
    }

    function test_a_vote_replaces_the_guardian(address next) public {
        vm.assume(next != PAUSER);
        bytes memory data = abi.encodeCall(manager.revokeRole, (charter.GUARDIAN(), PAUSER));
        queued(address(manager), data);
        vm.warp(block.timestamp + 3 days);
        execute(address(manager), data);
        vm.prank(PAUSER);
        vm.expectPartialRevert(IAccessManaged.AccessManagedUnauthorized.selector);
        guardian.pause(1);
    }

    /// @dev Days are not enough to change who moves stake.
    function test_the_short_timelock_administers_no_other_role(uint64 role, address who) public {
        vm.assume(role != charter.GUARDIAN() && role != charter.CURATOR() && role != type(uint64).max);
        vm.prank(address(short));
        vm.expectPartialRevert(IAccessManager.AccessManagerUnauthorizedAccount.selector);
        manager.grantRole(role, who, 0);
    }

    function test_a_charter_is_established_once_and_by_its_deployer(address who) public {
        Charter.Holders memory h = Charter.Holders(short, long, PAUSER, CURATOR);
        vm.expectPartialRevert(IAccessManager.AccessManagerUnauthorizedAccount.selector);
        charter.establish(manager, governed, h);
        vm.assume(who != address(this));
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(Charter.NotDeployer.selector, who));
        charter.establish(manager, governed, h);
    }

    function test_timelocks_are_long_enough(uint32 shortDelay, uint32 longDelay) public {
        Charter other = new Charter();
        AccessManager fresh = new AccessManager(address(other));
        (uint256 s, uint256 l) = (shortDelay % 6 days, longDelay % 66 days);
        (TimelockController a, TimelockController b) = timelocks(s, l);
        bytes4 short_ = Charter.DelayTooShort.selector;
        if (s < 3 days) vm.expectRevert(abi.encodeWithSelector(short_, a, s, 3 days));
        else if (l < 33 days + 1 hours) vm.expectRevert(abi.encodeWithSelector(short_, b, l, 33 days + 1 hours));
        other.establish(fresh, governed, Charter.Holders(a, b, PAUSER, CURATOR));
    }

    function test_the_long_timelock_listens_to_the_short_one(uint32 more) public {
        Charter other = new Charter();
        AccessManager fresh = new AccessManager(address(other));
        (TimelockController a,) = timelocks(3 days + uint256(more), 34 days);
        vm.expectRevert(abi.encodeWithSelector(Charter.NotProposer.selector, long, a));
        other.establish(fresh, governed, Charter.Holders(a, long, PAUSER, CURATOR));
    }

    function test_nobody_holds_nothing(uint8 which) public {
        Charter other = new Charter();
        AccessManager fresh = new AccessManager(address(other));
        Charter.Governed memory g = governed;
        address[2] memory people = [PAUSER, CURATOR];
        which %= 4;
        if (which == 0) g.params = address(0);
        else if (which == 1) g.breaker = address(0);
        else people[which - 2] = address(0);
        vm.expectRevert(abi.encodeWithSelector(Charter.ZeroAddress.selector));
        other.establish(fresh, g, Charter.Holders(short, long, people[0], people[1]));
    }
}
