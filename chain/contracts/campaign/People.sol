// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Receipt} from "../src/libraries/Types.sol";
import {Bls} from "../src/libraries/Bls.sol";
import {BlsSecret} from "./BlsSecret.sol";
import {Network} from "./Network.sol";

/// @notice An account that refuses every payment, and does what it is told.
contract Refuser {
    error NoThanks();

    receive() external payable {
        revert NoThanks();
    }

    function run(address to, uint256 value, bytes calldata data) external returns (bool ok, bytes memory out) {
        return to.call{value: value}(data);
    }
}

/// @title Who takes part in a campaign, what each begins with, and calls that may fail
/// @dev Checks I26 FITS A TRANSACTION.
abstract contract People is Network {
    uint256 internal constant OPERATORS = 3;
    uint256 internal constant CHALLENGERS = 3;
    uint256 internal constant VERIFIERS = 20;
    uint256 internal constant PURSE = 1_000 ether;
    bytes32 internal constant BOUNTIES = keccak256("audits");

    /// @notice A receipt and the batch that holds it.
    struct Anchored {
        Receipt r;
        bytes sig;
        uint64 batchId;
    }

    /// @notice A key for certificates, and the block in which it was registered.
    struct BlsKey {
        uint256 since;
        uint256 secret;
        Bls.G1 key;
    }

    /// @notice Operators, challengers, one who refuses payments, verifiers.
    address[] public people;
    Refuser internal refuser;
    Anchored[] internal receipts;
    mapping(bytes32 receiptId => uint256) internal placeOf; // in `receipts`
    /// @dev Of `receipts`: those whose batch still binds collateral.
    uint256[] internal unreleased;
    bytes32[] public ids;
    /// @notice Disputes that have not ended, or whose money is still moving.
    bytes32[] internal live;
    /// @notice Wei of everybody and of all contracts together, from the beginning to the end.
    uint256 public supply;
    /// @notice Successful calls by name: what a campaign really did.
    mapping(string name => uint256) public done;
    string[] internal names;
    /// @notice Refused calls by the selector of the reason; 0 without one.
    mapping(bytes4 why => uint256) public refused;
    bytes4[] internal reasons;
    /// @notice What each verifier signs certificates with.
    mapping(address who => BlsKey[]) internal blsKeysOf;
    /// @notice Of blocks whose headers somebody has seen: what their mixes are made of.
    mapping(uint256 number => bytes32) internal saltOf;

    function _populate() internal {
        refuser = new Refuser();
        for (uint256 i = 0; i < OPERATORS; ++i) {
            _arrive(operatorAt(i), OPERATOR_KEY + i);
        }
        for (uint256 i = 0; i < CHALLENGERS; ++i) {
            _arrive(vm.addr(0xC4A11000 + i), 0);
        }
        _arrive(address(refuser), 0);
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            _arrive(verifierAt(i), VERIFIER_KEY + i);
        }
        vm.deal(address(this), PURSE);
        _found();
        supply = wealth();
    }

    function _arrive(address who, uint256 secret) private {
        people.push(who);
        secretOf[who] = secret;
        vm.deal(who, PURSE);
    }

    /// @dev Deriving an address takes longer than most calls: these are remembered.
    function operatorOf(uint256 i) internal view returns (address) {
        return people[i % OPERATORS];
    }

    function verifierOf(uint256 i) internal view returns (address) {
        return people[OPERATORS + CHALLENGERS + 1 + i % VERIFIERS];
    }

    /// @dev What registers the next key of a verifier, with its proof of possession.
    function registeringBls(address who) internal view returns (bytes memory) {
        uint256 secret = _nextSecret(who);
        Bls.G1 memory key = BlsSecret.publicKey(secret);
        bytes32 digest = blsKeys.hashPossession(who, keccak256(abi.encode(key)));
        return abi.encodeCall(blsKeys.register, (key, BlsSecret.sign(secret, digest, Bls.POSSESSION)));
    }

    /// @dev It is registered.
    function keptBls(address who) internal {
        uint256 secret = _nextSecret(who);
        blsKeysOf[who].push(BlsKey(block.number, secret, BlsSecret.publicKey(secret)));
    }

    /// @dev The key that was the verifier's at the end of a block.
    function blsKeyAt(address who, uint256 number) internal view returns (BlsKey memory) {
        uint256 i = blsKeysOf[who].length - 1;
        while (blsKeysOf[who][i].since > number) {
            --i;
        }
        return blsKeysOf[who][i];
    }

    function _nextSecret(address who) private view returns (uint256) {
        return secretOf[who] + (blsKeysOf[who].length << 64);
    }

    /// @dev Stakes, pool, environment, model, key epoch, operators, a treasury that a few rounds empty.
    function _found() private {
        registry.addPool(POOL, tree);
        registry.setMeasurement(MEASUREMENT, true);
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            must(verifierOf(i), address(blsKeys), registeringBls(verifierOf(i)), "register");
            keptBls(verifierOf(i));
            stake(verifierOf(i), (20 + 7 * i) * 1 ether);
            vm.prank(verifierOf(i));
            registry.join(POOL, keccak256(abi.encode("platform", i)), MEASUREMENT);
            blsKeys.notePlace(keccak256(abi.encode(blsKeysOf[verifierOf(i)][0].key)));
        }
        pass(EPOCH_BLOCKS * BLOCK_TIME);
        _admit(ENVIRONMENT, POOL);
        _admit(MODEL, 0);
        openKeyEpoch();
        for (uint256 i = 0; i < OPERATORS; ++i) {
            // One of them soon has less than what it owes.
            stake(operatorOf(i), (60 - 19 * i) * 1 ether);
            vm.prank(operatorOf(i));
            registry.registerOperator("https://operator.example");
        }
        ledger.fund{value: 1 ether}();
    }

    function _admit(bytes32 digest, bytes32 pool) private {
        registry.propose(digest, pool, "vectors", "");
        for (uint256 i = 0; i < VERIFIERS; ++i) {
            vm.prank(verifierOf(i));
            registry.certify(digest, "vectors");
        }
        registry.activate(digest);
    }

    /// @dev Everything that anybody and any contract has.
    function wealth() public view returns (uint256 sum) {
        for (uint256 i = 0; i < people.length; ++i) {
            sum += people[i].balance;
        }
        sum += address(this).balance + address(vault).balance + address(ledger).balance;
        sum += address(settlement).balance + address(anchor).balance + address(disputes).balance;
        sum += address(demands).balance;
        sum += address(audits).balance + address(market).balance;
    }

    /// @dev The fuzzer likes small and round numbers; this is as good as any other number.
    function spread(uint256 salt) internal pure returns (uint256) {
        return uint256(keccak256(abi.encode("spread", salt)));
    }

    /// @dev One time in eight: what would end every story if it came as often as the rest.
    function rarely(uint256 salt) internal pure returns (bool) {
        return spread(salt) % 8 == 0;
    }

    function personAt(uint256 i) internal view returns (address) {
        return people[i % people.length];
    }

    function challengerAt(uint256 i) internal view returns (address) {
        return people[OPERATORS + i % (CHALLENGERS + 1)];
    }

    /// @dev What fate has for one of a dispute's members, or for it itself: the same whenever one asks.
    function luck(bytes32 id, uint16 round, uint256 i, string memory what) internal pure returns (uint256) {
        return uint256(keccak256(abi.encode(id, round, i, what)));
    }

    function pick(uint256 i) internal view returns (bytes32) {
        if (ids.length == 0) return 0;
        // Seldom one that has ended.
        return live.length == 0 || rarely(i) ? ids[i % ids.length] : live[i % live.length];
    }

    /// @dev A call by somebody that may be refused. Never dearer than what fits a transaction.
    function may(address who, address to, uint256 value, bytes memory data, string memory name)
        internal
        returns (bool ok)
    {
        if (who.balance < value) return false;
        _hear();
        bytes memory out;
        uint256 before = gasleft();
        if (who == address(refuser)) {
            (ok, out) = refuser.run(to, value, data);
        } else {
            if (who != address(this)) vm.prank(who);
            (ok, out) = to.call{value: value}(data);
        }
        that(before - gasleft() < 16_700_000, "a call is dearer than a transaction");
        if (!ok) {
            // Events of what was undone are recorded too.
            vm.getRecordedLogs();
            _count(_reason(out));
            return false;
        }
        if (done[name] == 0) names.push(name);
        done[name] += 1;
        _watch();
    }

    function _count(bytes4 why) private {
        if (refused[why] == 0) reasons.push(why);
        refused[why] += 1;
    }

    function _reason(bytes memory out) private pure returns (bytes4) {
        return out.length < 4 ? bytes4(0) : bytes4(out);
    }

    /// @dev A call that the tables allow: it must not fail.
    function must(address who, address to, bytes memory data, string memory what) internal {
        if (who != address(this)) vm.prank(who);
        (bool ok, bytes memory out) = to.call(data);
        if (!ok) revert Refused(what, _reason(out));
        _watch();
    }

    /// @dev Keep books of the events so far.
    function _hear() internal virtual;

    /// @dev Look at everything that the events so far were about.
    function _watch() internal virtual;

    error Refused(string what, bytes4 why);

    receive() external payable {}
}
