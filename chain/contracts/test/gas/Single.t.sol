// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Hashes as Pairs} from "@openzeppelin/contracts/utils/cryptography/Hashes.sol";
import {Ledger} from "../../src/stake/Ledger.sol";
import {Receipt, StructHashes} from "../../src/libraries/Types.sol";
import {IReceiptAnchor} from "../../src/interfaces/IReceiptAnchor.sol";
import {ILedger} from "../../src/interfaces/ILedger.sol";
import {OperatorSet, SlashingParams} from "../../src/stake/eigenlayer/IEigenLayer.sol";
import {EigenStaking} from "../eigenlayer/EigenStaking.sol";
import {GasBase, Meter} from "./GasBase.sol";

/// @title What single calls cost that are no step of a dispute which everybody votes in
/// forge-config: default.isolate = true
contract SingleGasTest is GasBase {
    function test_gas_of_a_proof_of_membership() public {
        Receipt memory r = receipt(operatorAt(0), anchor.lastSeq(operatorAt(0)) + 1, ENVIRONMENT);
        bytes32[] memory proof = new bytes32[](8);
        bytes32 root = StructHashes.batchLeaf(anchor.receiptId(r), r.seq);
        for (uint256 i = 0; i < proof.length; ++i) {
            proof[i] = keccak256(abi.encode("sibling", i));
            root = Pairs.commutativeKeccak256(root, proof[i]);
        }
        uint64 batchId = anchor.batchCount();
        uint256 fee = market.feeFor(188);
        IReceiptAnchor.BatchHeader memory h = headerOf(r, 188, root);
        vm.prank(r.operator);
        anchor.post{value: fee}(h);
        bytes memory data = abi.encodeCall(anchor.checkMember, (r, signature(r), batchId, proof));
        told("member_of_188", measured(address(anchor), data, "checkMember"));
    }

    function test_gas_of_an_equivocation() public {
        Receipt memory a = receipt(operatorAt(0), 77, ENVIRONMENT);
        Receipt memory b = receipt(operatorAt(0), 77, ENVIRONMENT);
        b.reqHash = "another";
        bytes memory data = abi.encodeCall(demands.equivocation, (a, signature(a), b, signature(b)));
        told("equivocation", measured(address(demands), data, "equivocation"));
        that(vault.stakeOf(operatorAt(0)) < 10_000 ether, "slashed");
    }

    function test_gas_of_more_stake() public {
        populated(1_000);
        address who = vm.addr(0xC0FFEE000000 + 500);
        vm.deal(who, 2 ether);
        bytes memory data = abi.encodeCall(vault.deposit, ());
        for (uint256 i = 0; i < 2; ++i) {
            vm.prank(who);
            (bool ok,) = address(vault).call{value: 1 ether}(data);
            told(i == 0 ? "deposit_first_of_an_epoch" : "deposit", spent());
            that(ok, "deposit");
        }
    }

    function test_gas_of_a_withdrawal() public {
        address who = address(0x51C4);
        Ledger(address(ledger)).setMover(address(this), true);
        ledger.take{value: 1 ether}("pot", address(this), ILedger.Source.FEE);
        ledger.credit("pot", who, 1 ether, ILedger.Reason.BOUNTY);
        pass(params.withdrawDelay() + 1 hours);
        vm.prank(who);
        told("withdraw", measured(address(ledger), abi.encodeCall(ledger.withdraw, ()), "withdraw"));
        same(who.balance, 1 ether, "paid");
    }
}

/// @title What EigenLayer's adapter costs beside EigenLayer
/// forge-config: default.isolate = true
contract AdapterGasTest is EigenStaking {
    event log_named_uint(string key, uint256 val);

    function used() private view returns (uint256) {
        return Meter(address(vm)).lastCallGas().gasTotalUsed;
    }

    /// @dev The same slash of the same stand-in, through the adapter, and by who only slashes and asks for the payment.
    function test_gas_of_a_slash_through_the_adapter() public {
        delegated(who, 100 ether, ALL);
        uint256 snapshot = vm.snapshotState();
        slashed(who, 0, 10 ether);
        uint256 through = used();
        vm.revertToState(snapshot);
        SlashingParams memory p;
        (p.operator, p.operatorSetId, p.description) = (who, 7, "bytewise verdict");
        (p.strategies, p.wadsToSlash) = (new address[](1), new uint256[](1));
        (p.strategies[0], p.wadsToSlash[0]) = (address(eigen), ALL / 10);
        vm.prank(address(adapter));
        (uint256 slashId,) = eigen.slashOperator(address(eigen), p);
        uint256 plain = used();
        eigen.clearBurnOrRedistributableSharesByStrategy(OperatorSet(address(eigen), 7), slashId, address(eigen));
        plain += used() - 21_000;
        that(through > plain, "books are not free");
        emit log_named_uint("eigenlayer_adapter", through - plain);
    }
}
