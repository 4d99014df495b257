// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {MerkleProof} from "@openzeppelin/contracts/utils/cryptography/MerkleProof.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {
    AuditResult,
    Certified,
    EmptyLeaf,
    Finding,
    StructHashes,
    Possession,
    Receipt,
    Vote
} from "../src/libraries/Signed.sol";
import {Check} from "./Vm.sol";

/// @notice One entry of a key shard's hash-chained release record.
struct Release {
    bytes32 receiptId;
    bytes32 ticketHash;
    uint64 keyEpoch;
    address shard;
    address voter;
    bytes32 evidenceHash;
    bytes32 transportKeyHash;
    bytes32 previous;
    uint64 index;
    uint8 decision;
    uint64 decidedAt;
}

/// @notice What a voter or a drawn auditor signs to ask the shards for one receipt.
struct Ticket {
    uint8 kind; // 1 dispute (subject = dispute id), 2 audit (subject = receipt id)
    bytes32 subject;
    uint16 round;
    bytes32 receiptId;
    address voter;
    bytes32 transportKeyHash;
    bytes32 instance;
    uint64 keyEpoch;
    uint64 expiresAt;
}

/// @title The vectors that Python makes (`tests/vectors/make.py`), checked by the code that the contracts run
contract VectorsTest is Check {
    // No contract hashes these two: shards and their clients do.
    bytes32 private constant RELEASE = keccak256(
        "Release(bytes32 receiptId,bytes32 ticketHash,uint64 keyEpoch,address shard,address voter,bytes32 evidenceHash,bytes32 transportKeyHash,bytes32 previous,uint64 index,uint8 decision,uint64 decidedAt)"
    );
    bytes32 private constant TICKET = keccak256(
        "Ticket(uint8 kind,bytes32 subject,uint16 round,bytes32 receiptId,address voter,bytes32 transportKeyHash,bytes32 instance,uint64 keyEpoch,uint64 expiresAt)"
    );
    string private constant DIR = "../../tests/vectors/";

    function read(string memory name) private view returns (string memory) {
        return vm.readFile(string.concat(DIR, name));
    }

    function uints(string memory json, string memory key) private pure returns (uint256[] memory) {
        return vm.parseJsonUintArray(json, key);
    }

    function words(string memory json, string memory key) private pure returns (bytes32[] memory) {
        return vm.parseJsonBytes32Array(json, key);
    }

    function accounts(string memory json, string memory key) private pure returns (address[] memory) {
        return vm.parseJsonAddressArray(json, key);
    }

    // --- EIP-712 ---

    function domain(string memory json) private pure returns (bytes32 separator) {
        separator = keccak256(
            abi.encode(
                keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)"),
                keccak256("Bytewise"),
                keccak256("1"),
                vm.parseJsonUint(json, ".chainId"),
                vm.parseJsonAddress(json, ".contract")
            )
        );
        same(separator, vm.parseJsonBytes32(json, ".domainSeparator"), "domain separator");
    }

    /// @dev Type string, digest and signature of every case of one record; the struct hashes are ours.
    function checkRecord(string memory json, string memory name, bytes32 typeHash, bytes32[] memory hashes)
        private
        pure
    {
        bytes32 separator = domain(json);
        same(keccak256(bytes(vm.parseJsonString(json, string.concat(name, ".typeString")))), typeHash, name);
        bytes32[] memory want = words(json, string.concat(name, ".structHash"));
        bytes32[] memory digests = words(json, string.concat(name, ".digest"));
        bytes[] memory signatures = vm.parseJsonBytesArray(json, string.concat(name, ".signature"));
        address signer = vm.parseJsonAddress(json, ".signer");
        for (uint256 i = 0; i < want.length; ++i) {
            same(hashes[i], want[i], string.concat(name, " struct hash"));
            bytes32 digest = keccak256(abi.encodePacked(hex"1901", separator, hashes[i]));
            same(digest, digests[i], string.concat(name, " digest"));
            same(ECDSA.recover(digest, signatures[i]), signer, string.concat(name, " signer"));
        }
    }

    function column(string memory json, string memory key) private pure returns (bytes32[] memory out) {
        // Every field type fits a word, and abi.encode of a static struct is its words in order.
        uint256[] memory raw = uints(json, key);
        out = new bytes32[](raw.length);
        for (uint256 i = 0; i < raw.length; ++i) {
            out[i] = bytes32(raw[i]);
        }
    }

    /// @dev The i-th case of a record as the words of its fields; `kinds` says how each column reads.
    function rows(string memory json, string memory name, string[] memory fields, bytes memory kinds)
        private
        pure
        returns (bytes[] memory out)
    {
        out = new bytes[](vm.parseJsonUint(json, string.concat(name, ".count")));
        for (uint256 f = 0; f < fields.length; ++f) {
            string memory key = string.concat(name, ".", fields[f]);
            bytes32[] memory values;
            if (kinds[f] == "b") {
                values = words(json, key);
            } else if (kinds[f] == "u") {
                values = column(json, key);
            } else {
                address[] memory who = accounts(json, key);
                values = new bytes32[](who.length);
                for (uint256 i = 0; i < who.length; ++i) {
                    values[i] = bytes32(uint256(uint160(who[i])));
                }
            }
            for (uint256 i = 0; i < out.length; ++i) {
                out[i] = bytes.concat(out[i], values[i]);
            }
        }
    }

    function split(string memory spaced) private pure returns (string[] memory out) {
        bytes memory s = bytes(spaced);
        uint256 n = 1;
        for (uint256 i = 0; i < s.length; ++i) {
            if (s[i] == " ") ++n;
        }
        out = new string[](n);
        uint256 next = 0;
        bytes memory word;
        for (uint256 i = 0; i <= s.length; ++i) {
            if (i == s.length || s[i] == " ") {
                out[next++] = string(word);
                word = "";
            } else {
                word = bytes.concat(word, s[i]);
            }
        }
    }

    function test_receipts_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases = rows(
            json,
            ".Receipt",
            split(
                "operator seq reqHash tokensHash outHash modelId environment gpuArch keyEpoch envelopeHash issuedAt anchorBy mode clientMode enclaveKey chainId"
            ),
            "aubbbbbbubuuuuau"
        );
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = StructHashes.receipt(abi.decode(cases[i], (Receipt)));
        }
        checkRecord(json, ".Receipt", StructHashes.RECEIPT, hashes);
    }

    function test_empty_leaves_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases = rows(json, ".EmptyLeaf", split("operator seq chainId"), "auu");
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = StructHashes.emptyLeaf(abi.decode(cases[i], (EmptyLeaf)));
        }
        checkRecord(json, ".EmptyLeaf", StructHashes.EMPTY_LEAF, hashes);
    }

    function test_votes_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases = rows(
            json,
            ".Vote",
            split("dispute round voter seatMask outcome code tokensHash traceRoot roundDigest quoteHash salt"),
            "buauuubbbbb"
        );
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = StructHashes.vote(abi.decode(cases[i], (Vote)));
        }
        checkRecord(json, ".Vote", StructHashes.VOTE, hashes);
    }

    function test_findings_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases =
            rows(json, ".Finding", split("dispute round outcome code tokensHash traceRoot roundDigest"), "buuubbb");
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = StructHashes.finding(abi.decode(cases[i], (Finding)));
        }
        checkRecord(json, ".Finding", StructHashes.FINDING, hashes);
    }

    function test_possessions_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases = rows(json, ".Possession", split("account keyHash"), "ab");
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = StructHashes.possession(abi.decode(cases[i], (Possession)));
        }
        checkRecord(json, ".Possession", StructHashes.POSSESSION, hashes);
    }

    function test_certified_findings_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases = rows(json, ".Certified", split("finding commitRoot signers"), "bbu");
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = StructHashes.certified(abi.decode(cases[i], (Certified)));
        }
        checkRecord(json, ".Certified", StructHashes.CERTIFIED, hashes);
    }

    function test_audit_results_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases =
            rows(json, ".AuditResult", split("receiptId verifier result commitment auditedAt"), "baubu");
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = StructHashes.audit(abi.decode(cases[i], (AuditResult)));
        }
        checkRecord(json, ".AuditResult", StructHashes.AUDIT_RESULT, hashes);
    }

    function test_releases_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases = rows(
            json,
            ".Release",
            split(
                "receiptId ticketHash keyEpoch shard voter evidenceHash transportKeyHash previous index decision decidedAt"
            ),
            "bbuaabbbuuu"
        );
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = keccak256(abi.encode(RELEASE, abi.decode(cases[i], (Release))));
        }
        checkRecord(json, ".Release", RELEASE, hashes);
    }

    function test_tickets_hash_and_recover_as_in_python() public view {
        string memory json = read("eip712.json");
        bytes[] memory cases = rows(
            json,
            ".Ticket",
            split("kind subject round receiptId voter transportKeyHash instance keyEpoch expiresAt"),
            "ububabbuu"
        );
        bytes32[] memory hashes = new bytes32[](cases.length);
        for (uint256 i = 0; i < cases.length; ++i) {
            hashes[i] = keccak256(abi.encode(TICKET, abi.decode(cases[i], (Ticket))));
        }
        checkRecord(json, ".Ticket", TICKET, hashes);
    }

    // --- Merkle ---

    function test_batch_leaves_are_those_of_python() public view {
        string memory json = read("merkle.json");
        bytes32[] memory ids = words(json, ".receiptIds");
        uint256[] memory seqs = uints(json, ".seqs");
        bytes32[] memory leaves = words(json, ".leaves");
        for (uint256 i = 0; i < ids.length; ++i) {
            same(StructHashes.batchLeaf(ids[i], uint64(seqs[i])), leaves[i], "leaf");
        }
    }

    function test_batch_proofs_hold_or_fail_as_in_python() public view {
        string memory json = read("merkle.json");
        bytes32[] memory siblings = words(json, ".siblings");
        bytes32[] memory leaves = words(json, ".cases.leaf");
        bytes32[] memory roots = words(json, ".cases.root");
        uint256[] memory offsets = uints(json, ".cases.proofOffset");
        uint256[] memory lengths = uints(json, ".cases.proofLength");
        bool[] memory oks = vm.parseJsonBoolArray(json, ".cases.ok");
        for (uint256 i = 0; i < leaves.length; ++i) {
            bytes32[] memory proof = new bytes32[](lengths[i]);
            for (uint256 k = 0; k < proof.length; ++k) {
                proof[k] = siblings[offsets[i] + k];
            }
            that(MerkleProof.verify(proof, roots[i], leaves[i]) == oks[i], "proof");
        }
    }

    // --- digests ---

    function test_out_hashes_are_those_of_python() public view {
        string memory json = read("sortition.json");
        bytes32[] memory tokens = words(json, ".outHashes.tokensHash");
        bytes32[] memory traces = words(json, ".outHashes.traceRoot");
        bytes32[] memory outs = words(json, ".outHashes.outHash");
        for (uint256 i = 0; i < outs.length; ++i) {
            same(StructHashes.outHash(tokens[i], traces[i]), outs[i], "out hash");
        }
    }
}
