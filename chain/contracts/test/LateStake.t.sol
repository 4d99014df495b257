// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../src/libraries/Types.sol";
import {ReceiptAnchor} from "../src/anchor/ReceiptAnchor.sol";
import {Demands} from "../src/demands/Demands.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import {AnchorBase} from "./AnchorBase.sol";

/// @title Stake that says at once what it took and brings it when it is told to, as EigenLayer's does
contract LateStake {
    ILedger private immutable LEDGER;
    uint256 public left = 100 ether;
    mapping(bytes32 ref => uint256) public owed;

    constructor(ILedger ledger) {
        LEDGER = ledger;
    }

    function keep(uint256 amount) external {
        left = amount;
    }

    function slash(address, uint256, uint256 want, bytes32 ref) external returns (uint256 taken) {
        taken = want < left ? want : left;
        left -= taken;
        owed[ref] += taken;
    }

    function unlockedOf(address) external view returns (uint256) {
        return left;
    }

    function bring(bytes32 ref) external payable {
        owed[ref] -= msg.value;
        LEDGER.take{value: msg.value}(ref, address(this), ILedger.Source.SLASH);
    }
}

contract LateStakeTest is AnchorBase {
    LateStake private late;
    address private reporter = address(0x4E90);

    function setUp() public override {
        super.setUp();
        late = new LateStake(ledger);
        ledger.setSource(address(late), true);
        IStakeSource source = IStakeSource(address(late));
        anchor = new ReceiptAnchor(ReceiptAnchor.Parts(params, guardian, registry, source, epochs, fees));
        demands = new Demands(Demands.Parts(params, guardian, registry, source, ledger, anchor));
        anchor.wire(IDisputes(address(bench)), demands);
        ledger.setMover(address(demands), true);
    }

    function reported(uint64 seq) private {
        (Receipt memory a, Receipt memory b) = (receipt(seq), receipt(seq));
        b.reqHash = keccak256("another");
        (bytes memory x, bytes memory y) = (signature(a), signature(b));
        vm.prank(reporter);
        demands.equivocation(a, x, b, y);
    }

    function test_a_report_is_paid_when_all_of_its_stake_has_arrived(uint96 part, uint64 seq) public {
        reported(seq);
        bytes32 ref = demands.equivocationRef(operator, seq);
        same(ledger.creditOf(reporter), 0, "nothing yet");
        part = uint96(bound(part, 0, 10 ether - 1));
        late.bring{value: part}(ref);
        vm.expectRevert(abi.encodeWithSelector(IDemands.NotArrived.selector, ref, part, 10 ether));
        demands.collect(ref);
        late.bring{value: 10 ether - part}(ref);
        demands.collect(ref);
        same(ledger.creditOf(reporter), 3 ether, "alpha");
        same(ledger.totalBurned(), 7 ether, "burned");
        vm.expectRevert(err(IDemands.NothingToCollect.selector, uint256(ref)));
        demands.collect(ref);
    }

    function test_two_reports_that_wait_together_are_paid_together(uint96 first, uint64 seq) public {
        first = uint96(bound(first, 1, 10 ether - 1));
        late.keep(first);
        reported(seq);
        late.keep(100 ether);
        reported(seq);
        bytes32 ref = demands.equivocationRef(operator, seq);
        same(late.owed(ref), 10 ether, "one slash in all");
        late.bring{value: first}(ref);
        vm.expectRevert(abi.encodeWithSelector(IDemands.NotArrived.selector, ref, first, 10 ether));
        demands.collect(ref);
        late.bring{value: 10 ether - first}(ref);
        demands.collect(ref);
        same(ledger.creditOf(reporter), 3 ether, "alpha");
        same(ledger.potOf(ref), 0, "pot");
    }

    /// @dev What comes of the first part before the second is reported is shared then.
    function test_what_arrived_is_shared_with_the_next_report(uint96 first, uint64 seq) public {
        first = uint96(bound(first, 1, 10 ether - 1));
        late.keep(first);
        reported(seq);
        bytes32 ref = demands.equivocationRef(operator, seq);
        late.bring{value: first}(ref);
        demands.collect(ref);
        late.keep(100 ether);
        reported(seq);
        late.bring{value: 10 ether - first}(ref);
        demands.collect(ref);
        same(ledger.creditOf(reporter), uint256(first) * 3 / 10 + (10 ether - uint256(first)) * 3 / 10, "alpha");
        same(ledger.potOf(ref), 0, "pot");
    }
}
