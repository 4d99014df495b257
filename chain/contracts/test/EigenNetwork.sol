// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {BlockSeedSource} from "../src/BlockSeedSource.sol";
import {Disputes} from "../src/Disputes.sol";
import {DisputeStore} from "../src/DisputeStore.sol";
import {EigenLayerStake} from "../src/EigenLayerStake.sol";
import {KeyEpochs} from "../src/KeyEpochs.sol";
import {Ledger} from "../src/Ledger.sol";
import {Lens} from "../src/Lens.sol";
import {Params} from "../src/Params.sol";
import {ReceiptAnchor} from "../src/ReceiptAnchor.sol";
import {Registry} from "../src/Registry.sol";
import {OperatorSet} from "../src/interfaces/IEigenLayer.sol";
import {FakeEigenLayer, WrappedEther} from "./FakeEigenLayer.sol";
import {Network} from "./Network.sol";

/// @title The whole network of `Network`, with EigenLayer's stake in place of `StakeVault`
abstract contract EigenNetwork is Network {
    uint32 internal constant MAX_AGE = 600;
    uint32 internal constant DEALLOCATION_DELAY = 3_000;
    uint32 internal constant WITHDRAWAL_DELAY = 2_500;
    uint64 internal constant ALL = 1e18;
    bytes32 internal constant REF = "ref";

    WrappedEther internal token;
    FakeEigenLayer internal eigen;
    EigenLayerStake internal adapter;
    address internal who = vm.addr(0x0E16E);

    function setUp() public virtual override {
        vm.warp(1_800_000_000);
        vm.roll(10_000);
        params = new Params(parameters());
        ledger = new Ledger();
        token = new WrappedEther();
        eigen = new FakeEigenLayer(token, DEALLOCATION_DELAY, WITHDRAWAL_DELAY);
        adapter = fresh(MAX_AGE);
        registry = new Registry(params, adapter, address(this));
        epochs = new KeyEpochs(params, address(this));
        seeds = new BlockSeedSource();
        anchor = new ReceiptAnchor(params, registry, adapter, ledger, epochs);
        disputes = new Disputes(DisputeStore.Parts(params, registry, adapter, ledger, anchor, seeds));
        lens = new Lens(Lens.Parts(params, registry, adapter, ledger, epochs, anchor, disputes));
        ledger.wire(address(adapter), address(disputes), address(anchor));
        eigen.create(address(adapter), address(adapter));
        adapter.wire(address(disputes), address(anchor));
        anchor.wire(disputes);
        populate();
    }

    function fresh(uint32 maxAge) internal returns (EigenLayerStake) {
        EigenLayerStake.Core memory core = EigenLayerStake.Core(eigen, eigen, eigen, eigen, token);
        return new EigenLayerStake(params, ledger, core, OperatorSet(address(eigen), 7), maxAge);
    }

    function stake(address account, uint256 amount) internal override {
        delegated(account, amount, ALL);
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
        vm.prank(address(disputes));
        return adapter.slash(account, boundBefore, want, REF);
    }

    function locked(address account, uint256 want) internal returns (uint256) {
        vm.prank(address(disputes));
        return adapter.lock(account, want, REF);
    }

    /// @dev Magnitudes have 18 digits, so a slash takes up to so much more than was asked, and a few wei less by rounding.
    function grain(uint256 amount) internal pure returns (uint256) {
        return 2 * amount / 1e18 + 8;
    }

    function near(uint256 have, uint256 want, uint256 by, string memory what) internal pure {
        if (have > want + by || have + by < want) revert Differ(what, have, want);
    }
}
