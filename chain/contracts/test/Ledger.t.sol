// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {IAccessManaged} from "@openzeppelin/contracts/access/manager/IAccessManaged.sol";
import {ReentrancyGuardTransient} from "@openzeppelin/contracts/utils/ReentrancyGuardTransient.sol";
import {Check} from "./Vm.sol";
import {Wired} from "../src/libraries/Wired.sol";
import {Guardian} from "../src/governance/Guardian.sol";
import {Ledger} from "../src/stake/Ledger.sol";
import {Params} from "../src/governance/Params.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {Defaults} from "./Defaults.sol";

/// @title An account that cannot be paid
contract Refuser {
    function withdraw(Ledger ledger) external {
        ledger.withdraw();
    }
}

/// @title An account that asks again while it is paid
contract Reenterer {
    Ledger private immutable LEDGER;
    bytes public why;

    constructor(Ledger ledger) {
        LEDGER = ledger;
    }

    receive() external payable {
        (bool ok, bytes memory data) = address(LEDGER).call(abi.encodeCall(ILedger.withdraw, ()));
        if (!ok) why = data;
    }

    function withdraw() external {
        LEDGER.withdraw();
    }
}

contract LedgerTest is Check {
    uint256 private constant DELAY = 1 days;
    address private constant SOURCE = address(0x5A11);
    address private constant DEMANDS = address(0xA1);
    address private constant AUDITS = address(0xA2);
    address private constant COURT = address(0xC0027);

    AccessManager private manager;
    Guardian private guardian;
    Ledger private ledger;

    /// @dev This contract is the settlement, and governance.
    function setUp() public {
        vm.warp(1_800_000_000);
        manager = new AccessManager(address(this));
        Params params = new Params(address(manager), Defaults.parameters());
        guardian = new Guardian(address(manager), params);
        ledger = new Ledger(address(manager), guardian, params);
        ledger.wire(SOURCE, address(this), DEMANDS, AUDITS, COURT);
        vm.deal(address(this), 1e9 ether);
    }

    function person(uint256 i) private pure returns (address) {
        return address(uint160(0xACC0_0000 + i % 5));
    }

    function balanced() private view {
        uint256 sum = ledger.totalPots() + ledger.totalCredits() + ledger.treasury() + ledger.totalBurned();
        same(address(ledger).balance, sum, "balance == pots + credits + treasury + burned");
    }

    function credited(address who, uint256 amount) private {
        ledger.take{value: amount}("pot", address(this), ILedger.Source.BOND);
        ledger.credit("pot", who, amount, ILedger.Reason.SEAT_PAY);
    }

    /// @dev Any movements at all: the sums agree with the balance and with each pot and account.
    function test_every_wei_is_in_one_place(bytes32 moves, uint8 steps) public {
        for (uint256 s = 0; s < steps % 64; ++s) {
            uint256 r = uint256(keccak256(abi.encode(moves, s)));
            bytes32 pot = bytes32((r >> 8) % 3);
            uint256 amount = (r >> 16) % 10 ether;
            uint256 have = ledger.potOf(pot);
            uint256 part = have == 0 ? 0 : (r >> 128) % (have + 1);
            uint256 kind = r % 9;
            if (kind == 0) ledger.take{value: amount}(pot, person(r), ILedger.Source.BOND);
            else if (kind == 1) ledger.fund{value: amount}();
            else if (kind == 2) ledger.credit(pot, person(r), part, ILedger.Reason.SEAT_PAY);
            else if (kind == 3) ledger.burn(pot, part, ILedger.BurnReason.REMAINDER);
            else if (kind == 4) ledger.advance(pot, amount);
            else if (kind == 5) ledger.repay(pot, part);
            else if (kind == 6) vm.warp(block.timestamp + amount % 2 days);
            else if (kind == 7) creditedEach(pot, r, part);
            else withdrawn(person(r));
            balanced();
        }
        uint256 credits = 0;
        for (uint256 i = 0; i < 5; ++i) {
            credits += ledger.creditOf(person(i));
        }
        same(ledger.totalCredits(), credits, "credits");
        uint256 pots = ledger.potOf(0) + ledger.potOf(bytes32(uint256(1))) + ledger.potOf(bytes32(uint256(2)));
        same(ledger.totalPots(), pots, "pots");
    }

    /// @dev `who` gets exactly what was due, or is told when more is.
    function withdrawn(address who) private {
        (uint256 due, uint64 next) = ledger.dueOf(who);
        (uint256 credit, uint256 before) = (ledger.creditOf(who), who.balance);
        if (due == 0) vm.expectRevert(abi.encodeWithSelector(ILedger.NothingDue.selector, who, next));
        vm.prank(who);
        ledger.withdraw();
        same(who.balance - before, due, "all that is due");
        same(ledger.creditOf(who), credit - due, "and the rest stays");
    }

    /// @dev Up to four of them, some oftener than once.
    function creditedEach(bytes32 pot, uint256 r, uint256 part) private {
        address[] memory who = new address[]((r >> 64) % 5);
        for (uint256 i = 0; i < who.length; ++i) {
            who[i] = person(r >> (72 + 8 * i));
        }
        uint256[5] memory before;
        for (uint256 i = 0; i < 5; ++i) {
            before[i] = ledger.creditOf(person(i));
            for (uint256 k = 0; k < who.length; ++k) {
                if (who[k] == person(i)) before[i] += part / 4;
            }
        }
        ledger.creditEach(pot, who, part / 4, ILedger.Reason.SEAT_PAY);
        for (uint256 i = 0; i < 5; ++i) {
            same(ledger.creditOf(person(i)), before[i], "as often as it is named");
        }
    }

    function test_no_credit_is_paid_before_its_delay(uint96 amount, uint32 passed) public {
        address who = person(1);
        uint256 a = bound(amount, 1, type(uint96).max / 2);
        vm.deal(address(this), a);
        credited(who, a);
        (, uint64 unlockAt) = ledger.dueOf(who);
        that(
            unlockAt >= block.timestamp + DELAY && unlockAt < block.timestamp + DELAY + 1 hours,
            "a day, or an hour more"
        );
        vm.warp(block.timestamp + passed % 2 days);
        (uint256 due,) = ledger.dueOf(who);
        same(due, block.timestamp < unlockAt ? 0 : a, "nothing before");
        withdrawn(who);
    }

    /// @dev Dust from anybody, as often as it likes: what was to be paid at some time is paid then.
    function test_nobody_delays_anothers_credit(uint96 mine, uint16 every, uint8 times) public {
        address who = person(2);
        uint256 a = bound(mine, 1, 1e6 ether);
        credited(who, a);
        (, uint64 unlockAt) = ledger.dueOf(who);
        for (uint256 i = 0; i < times % 48 && block.timestamp + every < unlockAt; ++i) {
            vm.warp(block.timestamp + every);
            credited(who, 1);
        }
        vm.warp(unlockAt);
        (uint256 due,) = ledger.dueOf(who);
        that(due >= a, "at the time that was said");
        withdrawn(who);
    }

    function test_a_pause_moves_every_credit(uint32 duration, uint32 passed) public {
        uint64 d = uint64(bound(duration, 1, 1 days));
        credited(person(0), 1 ether);
        (, uint64 unlockAt) = ledger.dueOf(person(0));
        vm.warp(block.timestamp + passed % 2 days);
        guardian.pause(d);
        (uint256 due,) = ledger.dueOf(person(0));
        same(due, 0, "nothing while the clock stands");
        vm.prank(person(0));
        vm.expectRevert(abi.encodeWithSelector(IGuardian.NotNow.selector, true));
        ledger.withdraw();
        vm.warp(block.timestamp + d);
        (due,) = ledger.dueOf(person(0));
        same(due, guardian.clock() < unlockAt ? 0 : 1 ether, "as long as it stood");
    }

    function test_who_refuses_its_money_keeps_its_credit(uint96 amount) public {
        Refuser who = new Refuser();
        uint256 a = bound(amount, 1, 1e6 ether);
        credited(address(who), a);
        vm.warp(block.timestamp + 2 * DELAY);
        vm.expectRevert(abi.encodeWithSelector(ILedger.PaymentRefused.selector, address(who)));
        who.withdraw(ledger);
        same(ledger.creditOf(address(who)), a, "untouched");
        balanced();
    }

    function test_who_asks_again_meanwhile_gets_it_once(uint96 amount) public {
        Reenterer who = new Reenterer(ledger);
        uint256 a = bound(amount, 1, 1e6 ether);
        credited(address(who), a);
        credited(person(3), a);
        vm.warp(block.timestamp + 2 * DELAY);
        who.withdraw();
        same(address(who).balance, a, "once");
        bytes4 refusal = ReentrancyGuardTransient.ReentrancyGuardReentrantCall.selector;
        same(keccak256(who.why()), keccak256(abi.encodeWithSelector(refusal)), "and refused the second time");
        balanced();
    }

    function test_a_pot_gives_only_what_it_holds(uint96 have, uint96 more, uint8 which) public {
        vm.deal(address(this), have);
        ledger.take{value: have}("pot", address(this), ILedger.Source.BOND);
        uint256 want = uint256(have) + 1 + more;
        vm.expectRevert(abi.encodeWithSelector(ILedger.PotTooSmall.selector, bytes32("pot"), have, want));
        address[] memory who = new address[](1);
        who[0] = person(0);
        if (which % 4 == 0) ledger.credit("pot", who[0], want, ILedger.Reason.SEAT_PAY);
        else if (which % 4 == 1) ledger.creditEach("pot", who, want, ILedger.Reason.SEAT_PAY);
        else if (which % 4 == 2) ledger.burn("pot", want, ILedger.BurnReason.REMAINDER);
        else ledger.repay("pot", want);
    }

    function test_nobody_is_no_account(uint96 amount) public {
        vm.expectRevert(abi.encodeWithSelector(ILedger.CreditToZero.selector, bytes32("pot")));
        ledger.credit("pot", address(0), amount, ILedger.Reason.SEAT_PAY);
    }

    function test_nobody_is_among_no_accounts(uint96 amount, uint8 where) public {
        uint256 each = bound(amount, 1, 1 ether);
        ledger.take{value: 3 * each}("pot", address(this), ILedger.Source.BOND);
        address[] memory who = new address[](3);
        (who[0], who[1], who[2]) = (person(0), person(1), person(2));
        who[where % 3] = address(0);
        vm.expectRevert(abi.encodeWithSelector(ILedger.CreditToZero.selector, bytes32("pot")));
        ledger.creditEach("pot", who, each, ILedger.Reason.SEAT_PAY);
    }

    function test_zero_moves_nothing(bytes32 ref) public {
        ledger.credit(ref, person(0), 0, ILedger.Reason.SEAT_PAY);
        ledger.creditEach(ref, new address[](1), 0, ILedger.Reason.SEAT_PAY);
        ledger.creditEach(ref, new address[](0), 1, ILedger.Reason.SEAT_PAY);
        ledger.burn(ref, 0, ILedger.BurnReason.REMAINDER);
        ledger.repay(ref, 0);
        same(ledger.advance(ref, 1 ether), 0, "from an empty treasury");
        same(ledger.close(ref, ILedger.BurnReason.REMAINDER), 0, "an empty pot");
        balanced();
    }

    function test_the_treasury_advances_what_it_has(uint96 given, uint96 want, uint96 back) public {
        vm.deal(address(this), given);
        ledger.fund{value: given}();
        uint256 got = ledger.advance("pot", want);
        same(got, given < want ? given : want, "as far as it reaches");
        uint256 repaid = got == 0 ? 0 : back % (got + 1);
        ledger.repay("pot", repaid);
        same(ledger.treasury(), uint256(given) - got + repaid, "and back");
        same(ledger.close("pot", ILedger.BurnReason.REMAINDER), got - repaid, "the rest is burned");
        balanced();
    }

    function test_only_movers_move(address who, uint8 which) public {
        vm.assume(!ledger.isMover(who) && !ledger.isSource(who));
        bytes[7] memory calls = [
            abi.encodeCall(ILedger.take, ("pot", who, ILedger.Source.BOND)),
            abi.encodeCall(ILedger.creditEach, ("pot", new address[](1), 1, ILedger.Reason.SEAT_PAY)),
            abi.encodeCall(ILedger.credit, ("pot", who, 1, ILedger.Reason.SEAT_PAY)),
            abi.encodeCall(ILedger.burn, ("pot", 1, ILedger.BurnReason.REMAINDER)),
            abi.encodeCall(ILedger.close, ("pot", ILedger.BurnReason.REMAINDER)),
            abi.encodeCall(ILedger.advance, ("pot", 1)),
            abi.encodeCall(ILedger.repay, ("pot", 1))
        ];
        refused(who, calls[which % 7]);
        if (which % 7 != 0) refused(which % 2 == 0 ? SOURCE : COURT, calls[which % 7]);
    }

    function refused(address who, bytes memory data) private {
        vm.prank(who);
        (bool ok, bytes memory why) = address(ledger).call(data);
        that(!ok, "refused");
        same(
            keccak256(why), keccak256(abi.encodeWithSelector(Wired.NotAuthorised.selector, who)), "as not its business"
        );
    }

    function test_a_source_brings_stake(uint96 amount) public {
        vm.deal(SOURCE, amount);
        vm.prank(SOURCE);
        ledger.take{value: amount}("pot", person(0), ILedger.Source.SLASH);
        same(ledger.potOf("pot"), amount, "in the pot");
        balanced();
    }

    function test_governance_names_movers_and_nobody_else(address who, address by, bool allowed) public {
        vm.assume(who != address(0) && by != address(this));
        ledger.setMover(who, allowed);
        that(ledger.isMover(who) == allowed, "a mover");
        ledger.setSource(who, !allowed);
        that(ledger.isSource(who) != allowed, "a source");
        bytes memory refusal = abi.encodeWithSelector(IAccessManaged.AccessManagedUnauthorized.selector, by);
        vm.prank(by);
        vm.expectRevert(refusal);
        ledger.setMover(who, allowed);
        vm.prank(by);
        vm.expectRevert(refusal);
        ledger.setSource(who, allowed);
    }

    function test_wiring_is_once_by_the_deployer_and_names_all(address who, uint8 which) public {
        vm.expectRevert(abi.encodeWithSelector(Wired.AlreadyWired.selector));
        ledger.wire(SOURCE, address(this), DEMANDS, AUDITS, COURT);
        Ledger other = new Ledger(address(manager), guardian, ledger.PARAMS());
        address[5] memory parts = [SOURCE, address(this), DEMANDS, AUDITS, COURT];
        parts[which % 5] = address(0);
        vm.expectRevert(abi.encodeWithSelector(Wired.ZeroAddress.selector));
        other.wire(parts[0], parts[1], parts[2], parts[3], parts[4]);
        vm.assume(who != address(this));
        vm.prank(who);
        vm.expectRevert(abi.encodeWithSelector(Wired.NotDeployer.selector, who));
        other.wire(SOURCE, address(this), DEMANDS, AUDITS, COURT);
    }

    function test_money_without_a_name_is_refused(uint96 amount) public {
        (bool ok,) = address(ledger).call{value: bound(amount, 1, 1 ether)}("");
        that(!ok, "no way in but take and fund");
    }
}
