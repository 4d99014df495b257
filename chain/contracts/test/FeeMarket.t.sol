// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {Wired} from "../src/libraries/Wired.sol";
import {Check} from "./Vm.sol";
import {FeeMarket} from "../src/anchor/FeeMarket.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IFeeMarket} from "../src/interfaces/IFeeMarket.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";

/// @title A clock that its tests set, and a pool that counts
contract Town {
    uint64 public clock = 1_800_000_000;
    uint256 public fed;

    function turn(uint64 by) external {
        clock += by;
    }

    function feed() external payable {
        fed += msg.value;
    }
}

/// @title The price of a place
contract FeeMarketTest is Check {
    uint256 private constant LEAST = 1 gwei;
    uint256 private constant MOST = 1 ether;
    /// @dev No vote makes a place dearer, or a price stand for longer.
    uint256 private constant DEAREST = 1 ether;
    uint256 private constant LONGEST = 14 days;
    uint256 private constant TARGET = 1_000;
    uint64 private constant EPOCH = 1 hours;

    Town private town = new Town();
    AccessManager private manager = new AccessManager(address(this));
    FeeMarket private market;

    function setUp() public {
        market = made(uint96(LEAST), uint96(MOST), uint32(TARGET), uint32(EPOCH));
        market.wire(address(this), IAudits(address(town)));
    }

    function made(uint96 least, uint96 most, uint32 target, uint32 seconds_) private returns (FeeMarket) {
        return new FeeMarket(address(manager), IGuardian(address(town)), least, most, target, seconds_);
    }

    /// @dev Bring the price to `want` or just above.
    function raised(uint256 want) private {
        while (market.price() < want) {
            market.use(2 * TARGET);
            town.turn(EPOCH);
        }
    }

    function test_the_price_of_an_epoch_follows_from_the_use_of_the_last(uint32 used, uint80 start) public {
        raised(bound(start, LEAST, 0.01 ether));
        uint256 p = market.price();
        market.use(used);
        same(market.price(), p, "within an epoch it stands");
        town.turn(EPOCH - 1);
        same(market.price(), p, "to its last second");
        town.turn(1);
        uint256 have = market.price();
        if (used == TARGET) {
            same(have, p, "at the target it stands");
        } else if (used > TARGET) {
            uint256 away = used >= 2 * TARGET ? TARGET : used - TARGET;
            that(have > p || p == MOST, "it rises");
            that(have <= p + p * away / TARGET / 8 + 1, "by an eighth at most");
        } else {
            that(have < p || p == LEAST, "it falls");
            uint256 floor_ = p - p * (TARGET - used) / TARGET / 8 - 1;
            that(have >= floor_ || have == LEAST, "by an eighth at most");
        }
    }

    function test_idle_epochs_lower_the_price_one_by_one(uint8 epochs, uint80 start) public {
        raised(bound(start, LEAST, 0.01 ether));
        market.use(TARGET);
        uint256 want = market.price();
        uint256 n = bound(epochs, 1, 60);
        for (uint256 i = 1; i < n; ++i) {
            want -= (want + 7) / 8;
            if (want < LEAST) want = LEAST;
        }
        town.turn(uint64(n) * EPOCH);
        same(market.price(), want, "price");
        // Looking at it, or using it, says the same.
        market.use(1);
        same(market.price(), want, "after use");
    }

    function test_no_idle_time_is_too_long_to_count(uint40 idle) public {
        market.setLimits(uint96(DEAREST), uint96(DEAREST), 1, 1);
        market.setLimits(1, uint96(DEAREST), 1, 1);
        town.turn(uint64(idle) + 1_000);
        uint256 before = gasleft();
        same(market.price(), 1, "the least");
        that(before - gasleft() < 500_000, "bounded");
    }

    function test_the_price_stays_within_its_limits(uint96 least, uint96 most, uint32 used, uint8 epochs) public {
        least = uint96(bound(least, 1, DEAREST));
        most = uint96(bound(most, least, DEAREST));
        market.setLimits(least, most, uint32(TARGET), uint32(EPOCH));
        for (uint256 i = 0; i < 3; ++i) {
            that(market.price() >= least && market.price() <= most, "within");
            market.use(used);
            town.turn(uint64(epochs) * EPOCH);
        }
        that(market.price() >= least && market.price() <= most, "within");
    }

    function test_new_limits_do_not_reach_back(uint32 used, uint32 seconds_) public {
        seconds_ = uint32(bound(seconds_, 1, 7 days));
        raised(0.001 ether);
        market.use(used);
        town.turn(EPOCH);
        uint256 p = market.price();
        market.setLimits(uint96(LEAST), uint96(MOST), 1, seconds_);
        same(market.price(), p, "what is over was under the old ones");
    }

    function test_what_is_paid_goes_to_the_audits(uint96 sent, uint32 receipts) public {
        vm.deal(address(this), sent);
        same(market.feeFor(receipts), receipts * market.price(), "fee");
        market.use{value: sent}(receipts);
        same(town.fed(), sent, "fed");
        same(address(market).balance, 0, "nothing stays");
    }

    function test_only_the_anchor_uses_places(address who) public {
        vm.assume(who != address(this));
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotAuthorised.selector, who));
        market.use(1);
    }

    function test_only_governance_sets_limits(address who) public {
        vm.assume(who != address(this));
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, who));
        market.setLimits(1, 2, 3, 4);
    }

    function test_limits_without_sense_are_refused(uint8 which, uint96 x) public {
        (uint96 least, uint96 most, uint32 target, uint32 seconds_) = (10, 20, 5, 60);
        which %= 6;
        if (which == 0) least = 0;
        else if (which == 1) least = uint96(bound(x, 21, type(uint96).max));
        else if (which == 2) target = 0;
        else if (which == 3) seconds_ = 0;
        else if (which == 4) most = uint96(bound(x, DEAREST + 1, type(uint96).max));
        else seconds_ = uint32(bound(x, LONGEST + 1, type(uint32).max));
        bytes memory why =
            abi.encodeWithSelector(IFeeMarket.BadLimits.selector, least, most, uint256(target), uint256(seconds_));
        vm.expectRevert(why);
        market.setLimits(least, most, target, seconds_);
        vm.expectRevert(why);
        made(least, most, target, seconds_);
    }

    function test_the_largest_limits_are_taken() public {
        market.setLimits(uint96(DEAREST), uint96(DEAREST), type(uint32).max, uint32(LONGEST));
        same(market.price(), DEAREST, "price");
    }
}
