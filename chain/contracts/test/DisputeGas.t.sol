// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Bls} from "../src/Bls.sol";
import {Certificate} from "../src/Certificate.sol";
import {Finding, ParamSet, Receipt, Vote} from "../src/Types.sol";
import {IDisputes} from "../src/interfaces/IDisputes.sol";
import {Courthouse} from "./Courthouse.sol";

/// @title What a dispute costs, each step a transaction of its own: `forge test --match-contract DisputeGas -vv`
/// forge-config: default.isolate = true
/// forge-config: default.fuzz.runs = 1
contract DisputeGasTest is Courthouse {
    event log_named_uint(string key, uint256 val);

    uint256 private constant POOL_SIZE = 100;

    uint256 private total;

    function parameters() internal pure override returns (ParamSet memory p) {
        p = super.parameters();
        p.committee.seats = [uint16(31), 63, 127];
        (p.money.noRevealPenalty, p.money.wrongPenalty) = (0.02 ether, 0.03 ether);
    }

    function setUp() public override {
        super.setUp();
        for (uint256 i = 0; i < POOL_SIZE; ++i) {
            register(member(i), secret(0, i));
        }
    }

    /// @dev A pool in which few are drawn twice.
    function verifiers() internal pure override returns (uint256) {
        return POOL_SIZE;
    }

    function said(string memory what, uint256 gas, uint256 most) private {
        emit log_named_uint(what, gas);
        total += gas;
        if (gas > most) revert Differ(what, gas, most);
    }

    function begun(uint256 salt) private returns (bytes32 id) {
        Receipt memory r = receiptOf(salt);
        uint64 batchId = docket.anchor(OPERATOR, ENVIRONMENT, 1);
        uint256 bond = params.requiredBond(1);
        uint256 gas = gasleft();
        id = disputes.open{value: bond}(r, "", batchId, new bytes32[](0), "alt");
        said("open", gas - gasleft(), 520_000);
        uint256 number = disputes.roundOf(id, 1).seedBlock;
        vm.roll(number + 1);
        known(number, "mix");
        bytes memory rlp = header(number, "mix");
        gas = gasleft();
        source.prove(number, rlp);
        said("prove", gas - gasleft(), 110_000);
        gas = gasleft();
        disputes.draw(id, 255);
        said("draw_31", gas - gasleft(), 395_000);
    }

    function ended(bytes32 id) private {
        uint256 gas = gasleft();
        disputes.settle(id);
        said("settle", gas - gasleft(), 100_000);
        toFinalize(id);
        gas = gasleft();
        disputes.finalize(id);
        said("finalize", gas - gasleft(), 300_000);
        gas = gasleft();
        settlement.settleSeats(id, 1, 255);
        said("settle_seats_31", gas - gasleft(), 2_300_000);
    }

    function test_gas_of_a_dispute_that_is_voted_directly(uint256 salt) public {
        bytes32 id = begun(salt);
        IDisputes.Member[] memory list = members(id);
        uint256 sum = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            bytes32 commitment = disputes.hashVote(voteOf(id, list[i], 0));
            vm.prank(list[i].voter);
            uint256 gas = gasleft();
            disputes.commit(id, list[i].seatMask, commitment);
            gas -= gasleft();
            sum += gas;
            total += gas;
        }
        emit log_named_uint("members", list.length);
        emit log_named_uint("commit, mean", sum / list.length);
        sum = 0;
        for (uint256 i = 0; i < list.length; ++i) {
            Vote memory v = voteOf(id, list[i], 0);
            uint256 gas = gasleft();
            disputes.reveal(v, "");
            gas -= gasleft();
            sum += gas;
            total += gas;
        }
        emit log_named_uint("reveal, mean", sum / list.length);
        ended(id);
        emit log_named_uint("dispute_direct_31", total);
    }

    function test_gas_of_a_dispute_with_a_certificate(uint256 salt) public {
        bytes32 id = begun(salt);
        uint256 gas = gasleft();
        disputes.postCommitRoot(id, "root");
        said("root", gas - gasleft(), 65_000);
        (Bls.G1[] memory points, uint256 sum) = seated(id);
        gas = gasleft();
        disputes.formCommittee(id, (1 << 31) - 1, points);
        said("form_31", gas - gasleft(), 390_000);
        toReveal(id);
        Vote memory v = voteOf(id, members(id)[0], 0);
        Finding memory f = Finding(id, 1, v.outcome, v.code, v.tokensHash, v.traceRoot, v.roundDigest);
        bytes32 digest = Certificate.digestOf(disputes.domainSeparator(), f, "root");
        Certificate.Proof memory p =
            Certificate.Proof((1 << 31) - 1, (1 << 31) - 1, publicKey(sum), signed(sum, digest), new Bls.G1[](0));
        gas = gasleft();
        disputes.certify(f, "root", p);
        said("certificate_31", gas - gasleft(), 340_000);
        ended(id);
        emit log_named_uint("dispute_certificate_31", total);
    }

    function seated(bytes32 id) private view returns (Bls.G1[] memory points, uint256 sum) {
        IDisputes.Member[] memory list = members(id);
        points = new Bls.G1[](31);
        for (uint256 i = 0; i < list.length; ++i) {
            uint256 who = 0;
            while (member(who) != list[i].voter) {
                ++who;
            }
            for (uint256 seat = 0; seat < 31; ++seat) {
                if (list[i].seatMask & (1 << seat) == 0) continue;
                points[seat] = publicKey(secret(0, who));
                sum = addmod(sum, secret(0, who), ORDER);
            }
        }
    }
}
