// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {IKeyEpochs} from "./interfaces/IKeyEpochs.sol";
import {IRandaoSource} from "./interfaces/IRandaoSource.sol";
import {IRounds} from "./interfaces/IRounds.sol";
import {IStakeTree} from "./interfaces/IStakeTree.sol";
import {IBreaker} from "./interfaces/IBreaker.sol";
import {IAudits} from "./interfaces/IAudits.sol";
import {IDemands} from "./interfaces/IDemands.sol";
import {IDisputes} from "./interfaces/IDisputes.sol";
import {IFeeMarket} from "./interfaces/IFeeMarket.sol";
import {IGuardian} from "./interfaces/IGuardian.sol";
import {ILedger} from "./interfaces/ILedger.sol";
import {ILens} from "./interfaces/ILens.sol";
import {IParams} from "./interfaces/IParams.sol";
import {IReceiptAnchor} from "./interfaces/IReceiptAnchor.sol";
import {IRegistry} from "./interfaces/IRegistry.sol";
import {ISettlement} from "./interfaces/ISettlement.sol";
import {IStakeSource} from "./interfaces/IStakeSource.sol";
import {Committee, Phase} from "./libraries/Types.sol";

/// @title Lens: joins for readers; no state, no power
contract Lens is ILens {
    /// @notice Contracts that the lens reads.
    struct Parts {
        IParams params;
        IGuardian guardian;
        IRegistry registry;
        IStakeSource vault;
        ILedger ledger;
        IKeyEpochs epochs;
        IFeeMarket market;
        IReceiptAnchor anchor;
        IDemands demands;
        IDisputes disputes;
        IRounds rounds;
        IBreaker breaker;
        ISettlement settlement;
        IRandaoSource seeds;
        IAudits audits;
    }

    /// @notice Versions of all parameters.
    IParams public immutable PARAMS;
    /// @notice The protocol clock.
    IGuardian public immutable GUARDIAN;
    /// @notice Operators, verifiers, pools, items, policy.
    IRegistry public immutable REGISTRY;
    /// @notice Where stakes are.
    IStakeSource public immutable VAULT;
    /// @notice Where other money is.
    ILedger public immutable LEDGER;
    /// @notice Key epochs.
    IKeyEpochs public immutable EPOCHS;
    /// @notice What a place for a receipt costs.
    IFeeMarket public immutable MARKET;
    /// @notice Where receipts are anchored.
    IReceiptAnchor public immutable ANCHOR;
    /// @notice Where what is withheld is demanded.
    IDemands public immutable DEMANDS;
    /// @notice The dispute court.
    IDisputes public immutable DISPUTES;
    /// @notice Seats and votes of the court.
    IRounds public immutable ROUNDS;
    /// @notice Environments whose convictions wait.
    IBreaker public immutable BREAKER;
    /// @notice Money of disputes.
    ISettlement public immutable SETTLEMENT;
    /// @notice Where seeds come from.
    IRandaoSource public immutable SEEDS;
    /// @notice Light audits.
    IAudits public immutable AUDITS;

    constructor(Parts memory parts) {
        PARAMS = parts.params;
        GUARDIAN = parts.guardian;
        REGISTRY = parts.registry;
        VAULT = parts.vault;
        LEDGER = parts.ledger;
        EPOCHS = parts.epochs;
        MARKET = parts.market;
        ANCHOR = parts.anchor;
        DEMANDS = parts.demands;
        DISPUTES = parts.disputes;
        ROUNDS = parts.rounds;
        BREAKER = parts.breaker;
        SETTLEMENT = parts.settlement;
        SEEDS = parts.seeds;
        AUDITS = parts.audits;
    }

    /// @inheritdoc ILens
    function snapshot(address who, bytes32[] calldata ids) external view returns (Snapshot memory s) {
        s.number = uint64(block.number);
        s.timestamp = uint64(block.timestamp);
        s.clock = GUARDIAN.clock();
        s.pausedUntil = GUARDIAN.pausedUntil();
        s.paramsVersion = PARAMS.version();
        s.requiredBond = PARAMS.requiredBond(s.paramsVersion);
        s.price = MARKET.price();
        s.account = accountView(who);
        s.disputes = disputes(ids);
        s.batchCount = ANCHOR.batchCount();
        s.activeEpoch = EPOCHS.activeEpoch();
        s.policyDigest = REGISTRY.policyDigest();
        s.policySerial = REGISTRY.policySerial();
    }

    /// @inheritdoc ILens
    function disputes(bytes32[] calldata ids) public view returns (DisputeView[] memory list) {
        list = new DisputeView[](ids.length);
        for (uint256 i = 0; i < ids.length; ++i) {
            list[i] = disputeView(ids[i]);
        }
    }

    /// @inheritdoc ILens
    function disputeView(bytes32 id) public view returns (DisputeView memory v) {
        v.id = id;
        v.phase = DISPUTES.phaseOf(id);
        if (v.phase == Phase.NONE) return v;
        v.dispute = DISPUTES.dispute(id);
        v.round = ROUNDS.roundOf(id, v.dispute.round);
        v.members = ROUNDS.membersOf(id, v.dispute.round);
        v.seed = _seed(v.dispute.environment, v.round.seedBlock);
        v.settleable = DISPUTES.isSettleable(id);
        v.held = BREAKER.isHeld(v.dispute.environment);
        (, v.knew) = DISPUTES.challengerOf(id);
        v.account = SETTLEMENT.accountOf(id);
        v.pot = LEDGER.potOf(id);
        v.rounds = _rounds(id, v.dispute.round);
        _addRules(v);
    }

    /// @inheritdoc ILens
    function accountView(address who) public view returns (AccountView memory a) {
        a.balance = who.balance;
        a.stake = VAULT.stakeOf(who);
        a.locked = VAULT.lockedOf(who);
        a.collateral = VAULT.collateralOf(who);
        a.free = VAULT.freeStakeOf(who);
        a.kept = VAULT.keptOf(who);
        (a.unbonding, a.unbondDue, a.unbondNextAt) = VAULT.unbondingOf(who);
        a.unbondDue = Math.min(a.unbondDue, Math.saturatingSub(a.stake + a.unbonding, a.kept));
        a.credit = LEDGER.creditOf(who);
        (a.creditDue, a.creditNextAt) = LEDGER.dueOf(who);
        a.operatorUntil = REGISTRY.operatorUntil(who);
        a.lastSeq = ANCHOR.lastSeq(who);
        a.verifier = REGISTRY.verifier(who);
        if (a.verifier.pool != 0) {
            IStakeTree tree = REGISTRY.treeOf(a.verifier.pool);
            (a.hasPlace, a.place) = tree.placeOf(who);
            a.units = tree.unitsAt(who, tree.epoch());
        }
    }

    /// @inheritdoc ILens
    function poolView(bytes32 pool) external view returns (PoolView memory p) {
        IStakeTree tree = REGISTRY.treeOf(pool);
        p.pool = pool;
        p.tree = address(tree);
        p.epoch = tree.epoch();
        p.epochStart = uint64(tree.epochStart(p.epoch));
        p.epochEnd = uint64(tree.epochStart(p.epoch + 1) - 1);
        p.units = tree.totalAt(p.epoch);
        p.weighing = REGISTRY.weighing(pool);
        p.seatable = REGISTRY.isSeatable(pool);
        p.stopped = REGISTRY.stoppedSeconds(pool);
    }

    /// @inheritdoc ILens
    function verifiers(bytes32 pool, uint16 from, uint256 most) external view returns (VerifierView[] memory list) {
        IStakeTree tree = REGISTRY.treeOf(pool);
        uint256 size = 0;
        // Places are given in order and never given back: the first that nobody holds is behind the last.
        while (size < most && tree.accountAt(uint16(from + size)) != address(0)) ++size;
        list = new VerifierView[](size);
        for (uint256 i = 0; i < size; ++i) {
            VerifierView memory v = list[i];
            v.place = uint16(from + i);
            v.account = tree.accountAt(v.place);
            v.units = tree.unitsAt(v.account, tree.epoch());
            v.stake = VAULT.stakeOf(v.account);
            v.verifier = REGISTRY.verifier(v.account);
        }
    }

    /// @inheritdoc ILens
    function batches(uint64 from, uint256 most) external view returns (BatchView[] memory list) {
        list = new BatchView[](_page(from, most, ANCHOR.batchCount()));
        for (uint256 i = 0; i < list.length; ++i) {
            uint64 id = uint64(from + i);
            list[i] = BatchView(
                id, ANCHOR.batch(id), ANCHOR.windowEnd(bytes32(0), id), DEMANDS.demand(DEMANDS.listSubject(id))
            );
        }
    }

    /// @inheritdoc ILens
    function demands(bytes32[] calldata subjects) external view returns (IDemands.Demand[] memory list) {
        list = new IDemands.Demand[](subjects.length);
        for (uint256 i = 0; i < subjects.length; ++i) {
            list[i] = DEMANDS.demand(subjects[i]);
        }
    }

    /// @inheritdoc ILens
    function money() external view returns (MoneyView memory m) {
        m.vaultBalance = address(VAULT).balance;
        m.ledgerBalance = address(LEDGER).balance;
        m.totalStake = VAULT.totalStake();
        m.totalUnbonding = VAULT.totalUnbonding();
        m.totalPots = LEDGER.totalPots();
        m.totalCredits = LEDGER.totalCredits();
        m.treasury = LEDGER.treasury();
        m.totalBurned = LEDGER.totalBurned();
        m.auditPool = AUDITS.pool();
    }

    function _addRules(DisputeView memory v) private view {
        Committee memory c = PARAMS.committee(v.dispute.paramsVersion);
        v.commitTime = PARAMS.times(v.dispute.paramsVersion).commitTime;
        // Safe: at most the seats of a round.
        v.quorum = uint16(PARAMS.quorum(v.dispute.paramsVersion, v.round.seats));
        if (v.dispute.level < c.rounds) v.appealBond = DISPUTES.appealBond(v.id);
    }

    function _seed(bytes32 environment, uint64 seedBlock) private view returns (SeedView memory s) {
        IStakeTree tree = REGISTRY.treeOf(REGISTRY.item(environment).pool);
        uint32 epoch = tree.epoch();
        uint256 length = tree.epochStart(epoch + 1) - tree.epochStart(epoch);
        s.epochEnd = uint64((seedBlock / length + 1) * length - 1);
        s.lost = block.number > s.epochEnd || SEEDS.isExpired(seedBlock);
        s.drawable = !s.lost && block.number > seedBlock && seedBlock >= tree.epochStart(epoch);
    }

    function _rounds(bytes32 id, uint16 last) private view returns (RoundView[] memory list) {
        list = new RoundView[](last);
        for (uint16 i = 0; i < last; ++i) {
            IRounds.Round memory r = ROUNDS.roundOf(id, i + 1);
            list[i] = RoundView(r.level, r.seats, SETTLEMENT.settledSeats(id, i + 1));
        }
    }

    function _page(uint256 from, uint256 most, uint256 count) private pure returns (uint256) {
        uint256 left = from < count ? count - from : 0;
        return left < most ? left : most;
    }
}
