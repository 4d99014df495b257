// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {Check} from "./Vm.sol";
import {Guardian} from "../src/governance/Guardian.sol";
import {Params} from "../src/governance/Params.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {Defaults} from "./Defaults.sol";

/// @title A court that remembers what it was told to refund, and by whom
contract RefundRecord {
    mapping(bytes32 id => address by) public refundedBy;

    function refund(bytes32 id) external {
        refundedBy[id] = msg.sender;
    }
}

contract GuardianTest is Check {
    uint256 private constant START = 1_800_000_000;

    AccessManager private manager;
    Params private params;
    Guardian private guardian;
    RefundRecord private court;
    uint256 private longest;

    function setUp() public {
        vm.warp(START);
        manager = new AccessManager(address(this));
        params = new Params(address(manager), Defaults.parameters());
        guardian = new Guardian(address(manager), params);
        court = new RefundRecord();
        longest = params.longestDispute(1);
    }

    function test_without_a_pause_it_is_wall_time(uint32 passed) public {
        vm.warp(START + passed);
        same(guardian.clock(), block.timestamp, "wall time");
        same(guardian.pausedUntil(), 0, "no pause");
    }

    /// @dev A pause of length d moves everything after it by d, and stands still meanwhile.
    function test_a_pause_ends_by_itself_and_moves_the_clock(uint32 before, uint32 duration, uint32 passed) public {
        uint64 d = uint64(duration % (1 days + 1));
        vm.warp(START + before);
        guardian.pause(d);
        uint256 from = block.timestamp;
        vm.warp(from + passed);
        uint256 lost = passed < d ? passed : d;
        same(guardian.clock(), block.timestamp - lost, "behind by what has passed of it");
        same(guardian.pausedUntil(), passed < d ? from + d : 0, "until it is over");
    }

    function test_ending_it_early_gives_back_the_rest(uint32 duration, uint32 after_, uint32 passed) public {
        uint64 d = uint64(bound(duration, 1, 1 days));
        uint256 lost = after_ % d;
        guardian.pause(d);
        vm.warp(START + lost);
        guardian.unpause();
        same(guardian.clock(), START, "where it stood");
        vm.warp(START + lost + passed);
        same(guardian.clock(), START + passed, "and on from there");
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, false));
        guardian.unpause();
    }

    function test_the_clock_never_goes_back_or_ahead(bytes32 moves, uint8 steps) public {
        uint256 last = guardian.clock();
        uint256 wall = block.timestamp;
        for (uint256 s = 0; s < steps % 32; ++s) {
            uint256 r = uint256(keccak256(abi.encode(moves, s)));
            vm.warp(block.timestamp + (r >> 8) % 3 days);
            try guardian.pause(uint64((r >> 64) % 1 days)) {} catch {}
            if (r & 1 == 0 && guardian.pausedUntil() != 0) guardian.unpause();
            uint256 now_ = guardian.clock();
            that(now_ >= last && now_ - last <= block.timestamp - wall, "at most as fast as wall time");
            (last, wall) = (now_, block.timestamp);
        }
    }

    function test_two_pauses_add_up(uint32 first, uint32 second) public {
        uint64 d1 = uint64(first % 1 days);
        uint64 d2 = uint64(second % 1 days);
        guardian.pause(d1);
        vm.warp(START + d1 + longest);
        guardian.pause(d2);
        vm.warp(START + d1 + longest + d2 + 1);
        same(guardian.clock(), START + longest + 1, "both lie between");
    }

    function test_the_next_pause_waits_for_the_longest_dispute(uint32 duration, uint32 wait) public {
        uint64 d = uint64(duration % 1 days);
        guardian.pause(d);
        uint256 w = wait % (2 * longest);
        vm.warp(START + d + w);
        if (w < longest) {
            uint256 notBefore = START + d + longest;
            vm.expectRevert(abi.encodeWithSelector(IGuardian.CoolingDown.selector, block.timestamp, notBefore));
        }
        guardian.pause(1);
    }

    function test_one_pause_at_a_time(uint32 duration, uint32 passed) public {
        uint64 d = uint64(bound(duration, 1, 1 days));
        guardian.pause(d);
        vm.warp(START + passed % d);
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, true));
        guardian.pause(1);
    }

    function test_no_pause_is_longer_than_the_parameters_allow(uint64 duration) public {
        if (duration > 1 days) {
            vm.expectRevert(abi.encodeWithSelector(IGuardian.PauseTooLong.selector, duration, 1 days));
        }
        guardian.pause(duration);
    }

    function test_it_refunds_and_that_is_all(bytes32 id) public {
        guardian.refund(IDisputes(address(court)), id);
        same(court.refundedBy(id), address(guardian), "in the court's name for it");
    }

    function test_only_the_role_may(address who, uint64 duration, bytes32 id, uint8 which) public {
        vm.assume(who != address(this));
        bytes[3] memory calls = [
            abi.encodeCall(IGuardian.pause, (duration)),
            abi.encodeCall(IGuardian.unpause, ()),
            abi.encodeCall(IGuardian.refund, (IDisputes(address(court)), id))
        ];
        vm.prank(who);
        (bool ok, bytes memory why) = address(guardian).call(calls[which % 3]);
        that(!ok, "refused");
        bytes memory want = abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, who);
        same(keccak256(why), keccak256(want), "as unauthorised");
    }

    /// @dev A court that comes later needs no guardian of its own, so no clock of its own.
    function test_it_refunds_in_every_court(bytes32 id) public {
        RefundRecord other = new RefundRecord();
        guardian.refund(IDisputes(address(other)), id);
        same(other.refundedBy(id), address(guardian), "there");
        same(court.refundedBy(id), address(0), "and nowhere else");
    }
}
