// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {IBlsKeys} from "../src/interfaces/IBlsKeys.sol";
import {IRandaoSource} from "../src/interfaces/IRandaoSource.sol";
import {IStakeTree} from "../src/interfaces/IStakeTree.sol";
import {ParamSet} from "../src/libraries/Types.sol";
import {IAudits} from "../src/interfaces/IAudits.sol";
import {IBreaker} from "../src/interfaces/IBreaker.sol";
import {IRounds} from "../src/interfaces/IRounds.sol";
import {IDemands} from "../src/interfaces/IDemands.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IFeeMarket} from "../src/interfaces/IFeeMarket.sol";
import {IGuardian} from "../src/interfaces/IGuardian.sol";
import {IKeyEpochs} from "../src/interfaces/IKeyEpochs.sol";
import {ILedger} from "../src/interfaces/ILedger.sol";
import {IParams} from "../src/interfaces/IParams.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {IRegistry} from "../src/interfaces/IRegistry.sol";
import {ISettlement} from "../src/interfaces/ISettlement.sol";
import {IStakeSource} from "../src/interfaces/IStakeSource.sol";
import "./Artifacts.sol";
import {Holders} from "../test/Holders.sol";
import {Headers} from "./Headers.sol";

/// @notice What closes the cycles between the contracts, by however many addresses.
interface IWired {
    function wire(address a) external;
    function wire(address a, address b) external;
    function wire(address a, address b, address c, address d) external;
    function wire(address a, address b, address c, address d, address e) external;
}

/// @title Every contract of the network, wired; this contract is governance and guardian
abstract contract Deployment is Headers, Holders {
    uint256 internal constant BLOCK_TIME = 12;
    uint256 internal constant EPOCH_BLOCKS = 300;
    uint256 internal constant LOOKAHEAD = 8;
    uint256 internal constant SHORTEST = 4;
    uint256 internal constant LONGEST = 10_000;
    uint256 internal constant MAX_UNITS = 100_000;

    AccessManager internal authority;
    IParams internal params;
    IGuardian internal guardian;
    ILedger internal ledger;
    IStakeSource internal vault;
    IRegistry internal registry;
    IStakeTree internal tree;
    IRandaoSource internal randao;
    IBlsKeys internal blsKeys;
    IKeyEpochs internal epochs;
    IFeeMarket internal market;
    IReceiptAnchor internal anchor;
    IDemands internal demands;
    ISettlement internal settlement;
    IDisputes internal disputes;
    IRounds internal rounds;
    IBreaker internal breaker;
    IAudits internal audits;

    /// @dev From artifacts: so a test is compiled once, whichever contract changes.
    function made(string memory name, bytes memory arguments) internal returns (address) {
        return vm.deployCode(string.concat(name, ".sol:", name), arguments);
    }

    function deploy(ParamSet memory p) internal {
        authority = new AccessManager(address(this));
        params = IParams(made("Params", abi.encode(authority, p)));
        guardian = IGuardian(made("Guardian", abi.encode(authority, params)));
        ledger = ILedger(made("Ledger", abi.encode(authority, guardian, params)));
        vault = IStakeSource(made("StakeVault", abi.encode(authority, guardian, params, ledger)));
        registry = IRegistry(made("Registry", abi.encode(authority, guardian, params, vault)));
        settlement = ISettlement(made("Settlement", abi.encode(params, ledger, vault)));
        epochs = IKeyEpochs(made("KeyEpochs", abi.encode(authority, params, guardian, registry)));
        uint256 least = 1 gwei;
        market = IFeeMarket(made("FeeMarket", abi.encode(authority, guardian, least, 1 ether, 16, 1 hours)));
        anchor = IReceiptAnchor(made("ReceiptAnchor", abi.encode(params, guardian, registry, vault, epochs, market)));
        demands = IDemands(made("Demands", abi.encode(params, guardian, registry, vault, ledger, anchor)));
        _deployCourt();
        audits =
            IAudits(made("Audits", abi.encode(params, guardian, registry, vault, ledger, epochs, anchor, disputes)));
        _wire();
    }

    function _deployCourt() private {
        blsKeys = IBlsKeys(made("BlsKeys", abi.encode(registry)));
        tree = IStakeTree(made("StakeTree", abi.encode(EPOCH_BLOCKS, LOOKAHEAD, uint256(1 ether), MAX_UNITS)));
        (bytes memory first, bytes memory second) = (header(block.number - 2, "a"), header(block.number - 1, "b"));
        vm.setBlockhash(block.number - 2, keccak256(first));
        vm.setBlockhash(block.number - 1, keccak256(second));
        randao = IRandaoSource(
            made("RandaoSource", abi.encode(SHORTEST, LONGEST, block.number - 2, first, block.number - 1, second))
        );
        rounds = IRounds(made("Rounds", abi.encode(params, guardian, blsKeys)));
        breaker = IBreaker(made("Breaker", abi.encode(authority, params, guardian, registry)));
        // `Disputes.Parts`, static: the same words as its members one by one.
        disputes = IDisputes(
            made("Disputes", abi.encode(params, registry, anchor, settlement, guardian, randao, rounds, breaker))
        );
    }

    function _wire() private {
        IWired(address(ledger))
            .wire(address(vault), address(settlement), address(demands), address(audits), address(disputes));
        IWired(address(vault)).wire(address(registry), address(settlement), address(anchor), address(demands));
        IWired(address(market)).wire(address(anchor), address(audits));
        IWired(address(registry)).wire(address(breaker));
        IWired(address(breaker)).wire(address(disputes));
        IWired(address(rounds)).wire(address(disputes));
        IWired(address(anchor)).wire(address(disputes), address(demands));
        IWired(address(settlement)).wire(address(disputes));
        IWired(address(tree)).wire(address(registry));
    }

    function openKeyEpoch() internal {
        bytes memory key = new bytes(65);
        key[0] = 0x04;
        epochs.openEpoch(1, key, points(key, 2), holders(3, 0), 2, IKeyEpochs.Assurance.SIMULATED, "policy");
        vouch(epochs, 1, 3);
        epochs.activate(1);
    }

    /// @dev Small committees, so that many disputes fit a campaign; gas tests take the real ones.
    function parameters() internal pure virtual returns (ParamSet memory p) {
        _times(p);
        p.committee.seats = [uint16(3), 5, 7];
        p.committee.rounds = 3;
        p.committee.maxReruns = 1;
        p.committee.breakerOperators = 1;
        (p.committee.tauNum, p.committee.tauDen) = (2, 3);
        p.committee.minPool = 4;
        p.committee.certifyBps = 5_000;
        _money(p);
        // With the fees more than may be paid of a slash: the fifth that is always burned is met.
        p.shares.alphaBps = 3_000;
        p.shares.betaBps = 5_000;
        p.shares.operatorShareBps = 5_000;
        p.shares.auditRateBps = 9_000;
        p.shares.auditsPerHour = 1; // or nobody would ever ask for more
        p.shares.maxBatch = 64;
    }

    function _times(ParamSet memory p) private pure {
        p.times.window = 2 hours;
        p.times.maxAnchorDelay = 1 hours;
        p.times.cure = 1 hours;
        p.times.seedTime = 2 hours;
        p.times.drawTime = 30 minutes;
        p.times.commitTime = 1 hours;
        p.times.revealTime = 30 minutes;
        p.times.appealTime = 30 minutes;
        p.times.rerunTime = 4 hours;
        p.times.airgap = 1 hours;
        p.times.maxPause = 2 hours;
        p.times.executionBound = 20 minutes;
        p.times.unbondDelay = 3 days;
        p.times.daRetention = 5 days;
        p.times.daMargin = 1 days;
        p.times.keyRetention = 3 days;
        p.times.withdrawDelay = 6 hours;
        p.times.breakerTime = 1 days;
    }

    function _money(ParamSet memory p) private pure {
        p.money.feePerSeat = 0.01 ether;
        p.money.privacyPrice = 0.05 ether;
        p.money.slashAmount = 15 ether;
        p.money.absentPenalty = 0.02 ether;
        p.money.noRevealPenalty = 0.05 ether;
        p.money.wrongPenalty = 0.1 ether;
        p.money.minOperatorStake = 20 ether;
        p.money.minVerifierStake = 5 ether;
        p.money.receiptCollateral = 0.5 ether;
        p.money.withheldPenalty = 0.4 ether;
        p.money.unanchoredPenalty = 16 ether;
        p.money.demandBond = 0.005 ether;
        p.money.auditUnit = 1 ether;
        p.money.bounty = 0.001 ether;
    }
}
