// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {EigenLayerStake} from "../../src/stake/eigenlayer/EigenLayerStake.sol";
import {FeeMarket} from "../../src/anchor/FeeMarket.sol";
import {ReceiptAnchor} from "../../src/anchor/ReceiptAnchor.sol";
import {Demands} from "../../src/demands/Demands.sol";
import {StakeBook} from "../../src/stake/StakeBook.sol";
import {Receipt} from "../../src/libraries/Types.sol";
import {IDisputes} from "../../src/interfaces/IDisputes.sol";
import {OperatorSet} from "../../src/stake/eigenlayer/IEigenLayer.sol";
import {IDemands} from "../../src/interfaces/IDemands.sol";
import {AnchorBase} from "../AnchorBase.sol";
import {FakeEigenLayer} from "./FakeEigenLayer.sol";
import {WrappedEther} from "./WrappedEther.sol";

/// @title Demands whose operator has its stake at EigenLayer
contract EigenDemandsTest is AnchorBase {
    uint256 private constant BOND = 0.01 ether;
    uint256 private constant PENALTY = 10 ether;
    uint32 private constant DEALLOCATION_DELAY = 30_000;
    address private demander = address(0xDE3A);

    FakeEigenLayer private eigen;
    EigenLayerStake private adapter;

    function setUp() public override {
        super.setUp();
        WrappedEther token = new WrappedEther();
        eigen = new FakeEigenLayer(token, DEALLOCATION_DELAY, DEALLOCATION_DELAY);
        adapter = new EigenLayerStake(
            StakeBook.Parts(address(manager), guardian, params, ledger),
            EigenLayerStake.Core(eigen, eigen),
            OperatorSet(address(eigen), 7),
            600,
            4 days
        );
        eigen.create(address(adapter), address(adapter));
        fees = new FeeMarket(address(manager), guardian, uint96(FEE), 1 ether, 1_000, 1 hours);
        anchor = new ReceiptAnchor(ReceiptAnchor.Parts(params, guardian, registry, adapter, epochs, fees));
        demands = new Demands(Demands.Parts(params, guardian, registry, adapter, ledger, anchor));
        anchor.wire(IDisputes(address(bench)), demands);
        fees.wire(address(anchor), audits);
        adapter.wire(registry, address(this), address(anchor), address(demands));
        ledger.setSource(address(adapter), true);
        ledger.setMover(address(demands), true);
        delegated();
        vm.deal(demander, 1 ether);
    }

    function delegated() private {
        vm.deal(address(this), 100 ether);
        eigen.stake{value: 100 ether}(operator);
        eigen.allocate(operator, 1e18);
        eigen.register(operator, true);
        adapter.sync(operator);
    }

    /// @dev A receipt that was given out, demanded and not anchored in time.
    function overdue() private returns (bytes32 subject) {
        Receipt memory r = receipt(1);
        vm.warp(uint256(r.anchorBy) + 1);
        bytes memory sig = signature(r);
        vm.prank(demander);
        demands.demandAnchor{value: BOND}(r, sig);
        subject = demands.anchorSubject(anchor.receiptId(r));
        vm.warp(uint256(demands.demand(subject).deadline) + 1);
    }

    /// @dev What the adapter would take later, and what the next call takes: one of them.
    function test_a_penalty_that_eigenlayer_refused_is_taken_once(uint8 tries, bool retries) public {
        bytes32 subject = overdue();
        eigen.pause(true, false, 0);
        demands.expire(subject);
        same(uint8(demands.demand(subject).state), uint8(IDemands.State.EXPIRED), "ended all the same");
        same(ledger.creditOf(demander), BOND, "bond");
        for (uint256 i = 0; i < tries % 4; ++i) {
            vm.expectRevert(abi.encodeWithSelector(IDemands.NothingToSlash.selector, operator, uint64(1)));
            demands.expire(subject);
        }
        eigen.pause(false, false, 0);
        if (retries) {
            try adapter.retry(operator, subject) {} catch {}
        }
        demands.expire(subject);
        try adapter.retry(operator, subject) {} catch {}
        near(adapter.slashableOf(operator), 100 ether - PENALTY, "one penalty");
        near(ledger.creditOf(demander), BOND + PENALTY * 3 / 10, "and its share");
        vm.expectRevert(abi.encodeWithSelector(IDemands.AlreadyPunished.selector, operator, uint64(1)));
        demands.expire(subject);
    }

    /// @dev Who ends a demand with too little gas for its penalty ends nothing.
    function test_nobody_ends_a_demand_and_starves_its_penalty(uint24 gas_) public {
        bytes32 subject = overdue();
        uint256 given = bound(gas_, 50_000, 3_000_000);
        (bool ok,) = address(demands).call{gas: given}(abi.encodeCall(demands.expire, (subject)));
        bool open = demands.demand(subject).state == IDemands.State.OPEN;
        that(ok != open, "ended or not");
        if (ok) near(adapter.slashableOf(operator), 100 ether - PENALTY, "and paid for");
        else same(adapter.slashableOf(operator), 100 ether, "untouched");
    }

    /// @dev The limit that docs/evidence/claims.md names: nothing can be bound at EigenLayer, and a pool can stand still for longer than
    ///      stake needs to leave there.
    function test_stake_leaves_eigenlayer_from_under_windows_that_stand_still_for_weeks(uint16 more) public {
        anchored(receipt(1));
        vm.prank(verifier(0));
        registry.quit();
        eigen.register(operator, false);
        uint256 blocks = uint256(DEALLOCATION_DELAY) + more;
        vm.roll(block.number + blocks);
        vm.warp(block.timestamp + 12 * blocks);
        that(anchor.windowEnd(0, 0) >= guardian.clock(), "the window stands open");
        that((adapter.slashableOf(operator) != 0) == (more == 0), "a last block, then nothing");
        vm.roll(block.number + 1);
        same(adapter.lock(operator, 10 ether, "dispute"), 0, "a dispute finds nothing");
    }

    /// @dev Parts of 10^18, rounded up.
    function near(uint256 have, uint256 want, string memory what) private pure {
        if (have > want + 1_000 || have + 1_000 < want) revert Differ(what, have, want);
    }
}
