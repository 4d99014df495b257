// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {AccessManager} from "@openzeppelin/contracts/access/manager/AccessManager.sol";
import {StakeTree} from "../src/stake/StakeTree.sol";
import {Check} from "./Vm.sol";
import {Guardian} from "../src/governance/Guardian.sol";
import {Ledger} from "../src/stake/Ledger.sol";
import {Params} from "../src/governance/Params.sol";
import {Registry} from "../src/stake/Registry.sol";
import {StakeBook} from "../src/stake/StakeBook.sol";
import {StakeVault} from "../src/stake/StakeVault.sol";
import {ParamSet} from "../src/libraries/Types.sol";
import {Defaults} from "./Defaults.sol";

/// @title Vault, registry and a tree, wired; this contract is governance, and the caller for settlement, anchor and court
abstract contract Staking is Check {
    address internal constant SETTLEMENT = address(0x5E771E);
    address internal constant ANCHOR = address(0xA1);
    address internal constant DEMANDS = address(0xA3);
    address internal constant AUDITS = address(0xA2);
    address internal constant COURT = address(0xC0047);
    bytes32 internal constant POOL = "pool";
    bytes32 internal constant ENCLAVE = "enclave";
    bytes32 internal constant REF = "ref";
    uint256 internal constant EPOCH = 100;
    uint256 internal constant LOOKAHEAD = 20;
    uint256 internal constant UNIT = 1 ether;
    uint256 internal constant MOST_UNITS = 1_000;
    uint256 internal constant DELAY = 14 days;
    uint256 internal constant LEAST = 5 ether;
    uint256 internal constant MIN_POOL = 5;

    AccessManager internal manager;
    Params internal params;
    Guardian internal guardian;
    Ledger internal ledger;
    StakeVault internal vault;
    Registry internal registry;
    StakeTree internal tree;

    function setUp() public virtual {
        vm.warp(1_800_000_000);
        vm.roll(10_000);
        manager = new AccessManager(address(this));
        params = new Params(address(manager), Defaults.parameters());
        guardian = new Guardian(address(manager), params);
        ledger = new Ledger(address(manager), guardian, params);
        vault = freshVault();
        registry = new Registry(address(manager), guardian, params, vault);
        vault.wire(registry, SETTLEMENT, ANCHOR, DEMANDS);
        ledger.wire(address(vault), SETTLEMENT, DEMANDS, AUDITS, COURT);
        registry.wire(COURT);
        registry.setMeasurement(ENCLAVE, true);
        tree = pooled(POOL, registry, UNIT);
    }

    function freshVault() internal returns (StakeVault) {
        return new StakeVault(StakeBook.Parts(address(manager), guardian, params, ledger));
    }

    /// @dev A pool with a new tree.
    function pooled(bytes32 pool, Registry registry_, uint256 unit) internal returns (StakeTree made) {
        made = new StakeTree(EPOCH, LOOKAHEAD, unit, MOST_UNITS);
        made.wire(address(registry_));
        registry_.addPool(pool, made);
    }

    function person(uint256 i) internal pure returns (address) {
        return address(uint160(0xACC0_0000 + i));
    }

    function staked(address who, uint256 amount) internal {
        vm.deal(who, who.balance + amount);
        vm.prank(who);
        vault.deposit{value: amount}();
    }

    /// @dev A verifier of `POOL` with a machine of its own.
    function joined(uint256 i, uint256 amount) internal returns (address who) {
        who = person(i);
        staked(who, amount);
        joins(who, POOL, platform(i));
    }

    function joins(address who, bytes32 pool, bytes32 platformId) internal {
        vm.prank(who);
        registry.join(pool, platformId, ENCLAVE);
    }

    function platform(uint256 i) internal pure returns (bytes32) {
        return keccak256(abi.encode("platform", i));
    }

    function quits(address who) internal {
        vm.prank(who);
        registry.quit();
    }

    function unbonds(address who, uint256 amount) internal {
        vm.prank(who);
        vault.requestUnbond(amount);
    }

    function finishes(address who) internal returns (uint256) {
        vm.prank(who);
        return vault.finishUnbond();
    }

    function locks(address who, uint256 want) internal returns (uint256) {
        vm.prank(SETTLEMENT);
        return vault.lock(who, want, REF);
    }

    function slashes(address who, uint256 boundBefore, uint256 want) internal returns (uint256) {
        vm.prank(SETTLEMENT);
        return vault.slash(who, boundBefore, want, REF);
    }

    function reserves(address who, uint256 amount) internal {
        vm.prank(ANCHOR);
        vault.reserve(who, 1, amount, 20 ether);
    }

    function passes(uint256 seconds_) internal {
        vm.warp(block.timestamp + seconds_);
    }

    function nextEpoch() internal {
        vm.roll(tree.epochStart(tree.epoch() + 1));
    }

    function unitsNext(address who) internal view returns (uint256) {
        return tree.unitsAt(who, tree.epoch() + 1);
    }

    /// @dev Floor of the stake in units, capped; nothing below the least stake.
    function unitsOf(uint256 stake) internal pure returns (uint256) {
        if (stake < LEAST) return 0;
        return stake / UNIT > MOST_UNITS ? MOST_UNITS : stake / UNIT;
    }

    function changed(ParamSet memory p) internal {
        params.set(p);
    }

    function random(bytes32 seed, uint256 i) internal pure returns (uint256) {
        return uint256(keccak256(abi.encode(seed, i)));
    }
}
