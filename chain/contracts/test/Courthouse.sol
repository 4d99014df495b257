// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IRounds} from "../src/interfaces/IRounds.sol";
import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {RLP} from "@openzeppelin/contracts/utils/RLP.sol";
import {RandaoSource} from "../src/court/RandaoSource.sol";
import {StakeTree} from "../src/stake/StakeTree.sol";
import {BlsSigner} from "./BlsSigner.sol";
import {BlsKeys} from "../src/keys/BlsKeys.sol";
import {Breaker} from "../src/court/Breaker.sol";
import {Rounds} from "../src/court/Rounds.sol";
import {Disputes} from "../src/court/Disputes.sol";
import {Guardian} from "../src/governance/Guardian.sol";
import {Ledger} from "../src/stake/Ledger.sol";
import {Params} from "../src/governance/Params.sol";
import {Registry} from "../src/stake/Registry.sol";
import {Settlement} from "../src/court/Settlement.sol";
import {StakeBook} from "../src/stake/StakeBook.sol";
import {StakeVault} from "../src/stake/StakeVault.sol";
import {Outcome, ParamSet, Phase, Receipt, Standing, StructHashes, Vote} from "../src/libraries/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {IReceiptAnchor} from "../src/interfaces/IReceiptAnchor.sol";
import {Defaults} from "./Defaults.sol";
import {Docket} from "./Docket.sol";

/// @title The court and all its neighbours but the anchor; this contract is governance and opens disputes
abstract contract Courthouse is BlsSigner {
    using RLP for RLP.Encoder;

    address internal constant OPERATOR = address(0x0BE7A704);
    bytes32 internal constant POOL = "pool";
    bytes32 internal constant ENVIRONMENT = "environment";
    bytes32 internal constant SALT = "salt";
    uint256 internal constant VERIFIERS = 12;
    uint256 internal constant EPOCH = 100;
    uint256 internal constant LOOKAHEAD = 20;
    uint256 internal constant SHORTEST = 8;

    AccessManager internal manager;
    Params internal params;
    Guardian internal guardian;
    Ledger internal ledger;
    StakeVault internal vault;
    Registry internal registry;
    StakeTree internal tree;
    Settlement internal settlement;
    RandaoSource internal source;
    Docket internal docket;
    IDisputes internal disputes;
    Rounds internal rounds;
    Breaker internal breaker;
    /// @dev Of the newest seed block of each dispute.
    mapping(bytes32 id => bytes) internal headers;
    mapping(bytes32 id => bytes32) internal receiptIdOf;

    function setUp() public virtual override {
        super.setUp();
        vm.warp(1_800_000_000);
        vm.roll(10_000);
        vm.deal(address(this), 1e6 ether);
        manager = new AccessManager(address(this));
        params = new Params(address(manager), parameters());
        guardian = new Guardian(address(manager), params);
        ledger = new Ledger(address(manager), guardian, params);
        vault = new StakeVault(StakeBook.Parts(address(manager), guardian, params, ledger));
        registry = new Registry(address(manager), guardian, params, vault);
        settlement = new Settlement(params, ledger, vault);
        docket = new Docket(POOL);
        source = newSource();
        keys = new BlsKeys(registry);
        disputes = newCourt();
        rounds = Rounds(address(disputes.ROUNDS()));
        breaker = Breaker(address(Disputes(address(disputes)).BREAKER()));
        wire();
        people();
        docket.closeWindows(type(uint64).max);
    }

    function parameters() internal pure virtual returns (ParamSet memory p) {
        p = Defaults.parameters();
        p.committee.seats = [uint16(5), 9, 15];
    }

    function parts(Rounds rounds_, Breaker breaker_) internal view returns (Disputes.Parts memory) {
        return Disputes.Parts({
            params: params,
            registry: registry,
            anchor: IReceiptAnchor(address(docket)),
            settlement: settlement,
            guardian: guardian,
            randomness: source,
            rounds: rounds_,
            breaker: breaker_
        });
    }

    function newCourt() internal returns (IDisputes court) {
        Rounds rounds_ = new Rounds(params, guardian, keys);
        Breaker breaker_ = new Breaker(address(manager), params, guardian, registry);
        court = new Disputes(parts(rounds_, breaker_));
        rounds_.wire(court);
        breaker_.wire(address(court));
    }

    function wire() private {
        ledger.wire(address(vault), address(settlement), address(0xA1), address(0xA2), address(disputes));
        vault.wire(registry, address(settlement), address(0xA1), address(0xA3));
        registry.wire(address(breaker));
        settlement.wire(disputes);
        tree = new StakeTree(EPOCH, LOOKAHEAD, 1 ether, 1_000);
        tree.wire(address(registry));
        registry.addPool(POOL, tree);
        registry.setMeasurement("enclave", true);
        ledger.fund{value: 100 ether}();
    }

    /// @dev Verifiers of different stakes, an operator, an environment that runs.
    function people() private {
        for (uint256 i = 0; i < verifiers(); ++i) {
            staked(member(i), 10 ether + i * 3 ether);
            vm.prank(member(i));
            registry.join(POOL, bytes32(i + 1), "enclave");
        }
        staked(OPERATOR, 100 ether);
        nextEpoch();
        nextEpoch();
        registry.propose(ENVIRONMENT, POOL, "vectors", "document");
        for (uint256 i = 0; i < verifiers(); ++i) {
            vm.prank(member(i));
            registry.certify(ENVIRONMENT, "vectors");
        }
        registry.activate(ENVIRONMENT);
    }

    /// @dev Who holds a seat, and what it is worth.
    function standingOf(bytes32 id, uint16 round, uint256 seat) internal view returns (address, Standing) {
        (address[] memory holders, bytes memory standings) = rounds.standingsOf(id, round, seat, 1);
        return holders.length == 1 ? (holders[0], Standing(uint8(standings[0]))) : (address(0), Standing.NONE);
    }

    function verifiers() internal pure virtual returns (uint256) {
        return VERIFIERS;
    }

    function staked(address who, uint256 amount) internal {
        vm.deal(who, amount);
        vm.prank(who);
        vault.deposit{value: amount}();
    }

    function nextEpoch() internal {
        vm.roll(tree.epochStart(tree.epoch() + 1));
    }

    function passes(uint256 seconds_) internal {
        vm.warp(block.timestamp + seconds_);
    }

    // --- seeds ---

    /// @dev Blocks ahead that a seed may lie.
    function longest() internal pure virtual returns (uint256) {
        return 1_000;
    }

    function newSource() private returns (RandaoSource) {
        known(block.number - 2, "first");
        known(block.number - 1, "second");
        bytes memory first = header(block.number - 2, "first");
        bytes memory second = header(block.number - 1, "second");
        return new RandaoSource(SHORTEST, longest(), block.number - 2, first, block.number - 1, second);
    }

    function known(uint256 number, bytes32 mix) internal {
        vm.setBlockhash(number, keccak256(header(number, mix)));
    }

    function header(uint256 number, bytes32 mix) internal pure returns (bytes memory) {
        RLP.Encoder memory list = RLP.encoder();
        list.push(keccak256(abi.encode("parent", number))).push(keccak256("ommers")).push(address(0xFEE));
        list.push(keccak256("state")).push(keccak256("transactions")).push(keccak256("receipts"));
        list.push(new bytes(256)).push(uint256(0)).push(number).push(uint256(36_000_000)).push(uint256(1));
        list.push(uint256(1_800_000_000) + number).push(bytes("extra")).push(mix).push(abi.encodePacked(bytes8(0)));
        list.push(uint256(7)).push(keccak256("withdrawals")).push(uint256(0)).push(uint256(0));
        list.push(keccak256("beacon")).push(keccak256("requests"));
        return list.encode();
    }

    /// @dev The seed block of the running round comes, with a mix of this salt.
    function seeded(bytes32 id, bytes32 salt) internal {
        bytes32 mix = keccak256(abi.encode(salt));
        uint256 number = rounds.roundOf(id, disputes.dispute(id).round).seedBlock;
        vm.roll(number + 1);
        known(number, mix);
        headers[id] = header(number, mix);
    }

    // --- disputes ---

    function receiptOf(uint256 salt) internal pure returns (Receipt memory r) {
        r.operator = OPERATOR;
        r.environment = ENVIRONMENT;
        r.seq = uint64(salt);
        r.tokensHash = "tokens";
        r.outHash = StructHashes.outHash("tokens", "trace");
    }

    function opened(uint256 salt) internal returns (bytes32) {
        return openedBy(address(this), salt, "alt");
    }

    function openedBy(address who, uint256 salt, bytes32 altCommit) internal returns (bytes32 id) {
        return openedFor(receiptOf(salt), who, altCommit);
    }

    function openedFor(Receipt memory r, address who, bytes32 altCommit) internal returns (bytes32 id) {
        uint64 batchId = docket.anchor(r.operator, ENVIRONMENT, params.version());
        uint256 bond = params.requiredBond(params.version());
        vm.deal(who, who.balance + bond);
        vm.prank(who);
        id = disputes.open{value: bond}(r, "", batchId, new bytes32[](0), altCommit);
        receiptIdOf[id] = keccak256(abi.encode(r));
    }

    function drawn(bytes32 id, bytes32 mix) internal {
        seeded(id, mix);
        disputes.draw(id, 255, headers[id]);
    }

    function inCommit(uint256 salt) internal returns (bytes32 id) {
        id = opened(salt);
        drawn(id, keccak256(abi.encode("mix", salt)));
    }

    function members(bytes32 id) internal view returns (IRounds.Member[] memory) {
        return rounds.membersOf(id, disputes.dispute(id).round);
    }

    /// @dev What a member votes: 0 the claim; 1 to 3 other outputs; 4 the claim by lazy work; 5, 6 defects; 7 no bytes;
    ///      8 no key; 9 a broken machine.
    function voteOf(bytes32 id, IRounds.Member memory m, uint256 choice) internal view returns (Vote memory v) {
        (v.dispute, v.round, v.voter, v.seatMask) = (id, disputes.dispute(id).round, m.voter, m.seatMask);
        v.salt = keccak256(abi.encode(m.voter, choice));
        if (choice <= 4) {
            v.outcome = uint8(Outcome.EXECUTED);
            v.tokensHash = choice % 4 == 0 ? bytes32("tokens") : keccak256(abi.encode("other", choice));
            v.traceRoot = "trace";
            v.roundDigest = choice == 4 ? bytes32("lazy") : bytes32("digest");
            return v;
        }
        v.outcome = uint8(
            choice <= 6
                ? Outcome.INVALID
                : choice == 7 ? Outcome.UNAVAILABLE : choice == 8 ? Outcome.NO_KEY : Outcome.CANNOT_EXECUTE
        );
        if (choice != 7 && choice != 8) v.code = uint8(choice);
    }

    function committed(Vote memory v) internal {
        bytes32 commitment = rounds.hashVote(v);
        vm.prank(v.voter);
        rounds.commit(v.dispute, v.seatMask, commitment);
    }

    /// @dev Commits end, by the clock if not before.
    function toReveal(bytes32 id) internal {
        uint64 end = rounds.roundOf(id, disputes.dispute(id).round).commitEnd;
        if (guardian.clock() <= end) passes(end + 1 - guardian.clock());
    }

    function toSettle(bytes32 id) internal {
        uint64 end = rounds.roundOf(id, disputes.dispute(id).round).revealEnd;
        if (!disputes.isSettleable(id)) passes(end + 1 - guardian.clock());
    }

    function toFinalize(bytes32 id) internal {
        passes(disputes.dispute(id).airgapEnd + 1 - guardian.clock());
    }

    /// @dev Everybody votes `choice`, and the round is settled.
    function allSay(bytes32 id, uint256 choice) internal {
        IRounds.Member[] memory list = members(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0)) committed(voteOf(id, list[i], choice));
        }
        toReveal(id);
        for (uint256 i = 0; i < list.length; ++i) {
            if (list[i].voter != address(0)) rounds.reveal(voteOf(id, list[i], choice), "");
        }
        toSettle(id);
        disputes.settle(id);
    }

    /// @dev A round from its seed to its count.
    function judged(bytes32 id, uint256 choice) internal {
        drawn(id, keccak256(abi.encode("judged", id, disputes.dispute(id).round)));
        allSay(id, choice);
    }

    function inPhase(bytes32 id, Phase want) internal view {
        same(uint256(disputes.phaseOf(id)), uint256(want), "phase");
    }

    receive() external payable {}
}
