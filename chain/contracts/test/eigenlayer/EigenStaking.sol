// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {StakeTree} from "../../src/stake/StakeTree.sol";
import {OperatorSet} from "../../src/stake/eigenlayer/IEigenLayer.sol";
import {FakeEigenLayer} from "./FakeEigenLayer.sol";
import {WrappedEther} from "./WrappedEther.sol";
import {EigenLayerStake} from "../../src/stake/eigenlayer/EigenLayerStake.sol";
import {Registry} from "../../src/stake/Registry.sol";
import {StakeBook} from "../../src/stake/StakeBook.sol";
import {Staking} from "../Staking.sol";

/// @title The parts of `Staking`, with EigenLayer's stake in place of `StakeVault`
abstract contract EigenStaking is Staking {
    uint32 internal constant MAX_AGE = 600;
    uint32 internal constant LONGEST = 4 days;
    uint32 internal constant HORIZON = MAX_AGE + LONGEST / 12;
    uint32 internal constant DEALLOCATION_DELAY = 30_000;
    uint32 internal constant WITHDRAWAL_DELAY = 29_500;
    uint64 internal constant ALL = 1e18;

    WrappedEther internal token;
    FakeEigenLayer internal eigen;
    EigenLayerStake internal adapter;
    address internal who = address(0x0E16E);

    function setUp() public virtual override {
        super.setUp();
        token = newToken();
        eigen = new FakeEigenLayer(token, DEALLOCATION_DELAY, WITHDRAWAL_DELAY);
        adapter = fresh(MAX_AGE, LONGEST);
        registry = new Registry(address(manager), guardian, params, adapter);
        registry.wire(COURT);
        registry.setMeasurement(ENCLAVE, true);
        tree = pooled(POOL, registry, UNIT);
        eigen.create(address(adapter), address(adapter));
        adapter.wire(registry, SETTLEMENT, ANCHOR, DEMANDS);
        ledger.setSource(address(adapter), true);
    }

    function newToken() internal virtual returns (WrappedEther) {
        return new WrappedEther();
    }

    function fresh(uint32 maxAge, uint32 longest) internal returns (EigenLayerStake) {
        StakeBook.Parts memory parts = StakeBook.Parts(address(manager), guardian, params, ledger);
        EigenLayerStake.Core memory core = EigenLayerStake.Core(eigen, eigen);
        return new EigenLayerStake(parts, core, OperatorSet(address(eigen), 7), maxAge, longest);
    }

    /// @dev `account` is registered, has `amount` delegated to it, a part of that allocated, and a record of it.
    function delegated(address account, uint256 amount, uint64 magnitude) internal {
        vm.deal(address(this), amount);
        eigen.stake{value: amount}(account);
        eigen.allocate(account, magnitude);
        eigen.register(account, true);
        adapter.sync(account);
    }

    function slashed(address account, uint256 boundBefore, uint256 want) internal returns (uint256) {
        return slashed(account, boundBefore, want, REF);
    }

    function slashed(address account, uint256 boundBefore, uint256 want, bytes32 ref) internal returns (uint256) {
        vm.prank(SETTLEMENT);
        return adapter.slash(account, boundBefore, want, ref);
    }

    function locked(address account, uint256 want) internal returns (uint256) {
        vm.prank(SETTLEMENT);
        return adapter.lock(account, want, REF);
    }

    /// @dev Somebody sends the adapter wrapped ether.
    function gives(uint256 gift) internal {
        vm.deal(address(this), gift);
        token.deposit{value: gift}();
        token.transfer(address(adapter), gift);
    }

    /// @dev Magnitudes have 18 digits, and a share may be worth more than a wei (one of 1e18 at least holds all there is). What
    ///      can be slashed is read before and after: two roundings of shares and one of magnitudes each, and the slash has two.
    function grain(uint256 amount) internal pure returns (uint256) {
        return 8 * amount / 1e18 + 8;
    }

    function near(uint256 have, uint256 want, uint256 by, string memory what) internal pure {
        if (have > want + by || have + by < want) revert Differ(what, have, want);
    }
}
