// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {Math} from "@openzeppelin/contracts/utils/math/Math.sol";
import {Receipt} from "../libraries/Types.sol";
import {IDisputes} from "../interfaces/IDisputes.sol";
import {ILedger} from "../interfaces/ILedger.sol";

/// @title BondPool: several accounts pay the bond of one challenge and share what comes back
/// @notice Anybody deploys a pool for one receipt. It belongs to no network and has no owner, no fee and no setting.
///         Compare its code, court, ledger, receipt and bond before you contribute: whoever deployed it chose them.
/// @dev COLLECTING -challenge-> CHALLENGED. No third state: `claim` shares whatever the ledger has paid by then. A pool whose
///      receipt is never challenged, or is challenged by somebody else, stays in COLLECTING, and everybody takes its money back.
///      Money, in wei:
///      | call       | state      | in                     | out                                                   |
///      | contribute | COLLECTING | up to `BOND` in all    | what exceeds it, to the caller                        |
///      | takeBack   | COLLECTING |                        | the caller's contribution, to the caller              |
///      | challenge  | to the next| what is missing        | `BOND` to the court; what exceeds it, to the caller   |
///      | claim      | CHALLENGED | the ledger's payment   | contribution / `BOND` of all that came, to the caller |
///      The ledger pays the bond, and alpha if `openAlt` showed the answer (OVERTURNED, INVALID); the bond (UNAVAILABLE, refund);
///      the bond less a fee (draw); or nothing (upheld).
///      Invariants:
///      BACKED: in COLLECTING, balance >= contributed == sum of contributions <= BOND.
///      ONCE: at most one dispute is opened, of `RECEIPT`, with exactly `BOND`, and contributions never change afterwards.
///      SHARED: after a claim an account has been paid contribution * returned / BOND, rounded down. All claims together never
///      exceed `returned`; fewer wei than there are contributors remain here for ever.
///      OWN: a call pays its caller only, so nobody can stop or redirect the payment of another.
contract BondPool {
    /// @notice `account` added `amount` wei to the bond.
    event Contributed(address indexed account, uint256 amount);
    /// @notice `account` took its `amount` wei back before the challenge.
    event TakenBack(address indexed account, uint256 amount);
    /// @notice The pool opened dispute `id`.
    event Challenged(bytes32 indexed id);
    /// @notice `account` was paid `amount` wei of what came back.
    event Claimed(address indexed account, uint256 amount);

    /// @notice The bond is complete, or nothing was sent.
    error NothingAccepted(uint256 sent, uint256 missing);
    /// @notice The bond lacks `missing` wei.
    error BondIncomplete(uint256 missing);
    /// @notice The pool has opened its dispute: contributions are part of its bond.
    error AlreadyChallenged(bytes32 id);
    /// @notice The pool has opened no dispute: contributions are taken back by `takeBack`.
    error NotChallenged(bytes32 id);
    /// @notice The receipt shown is not the receipt of this pool.
    error WrongReceipt(bytes32 have, bytes32 want);
    /// @notice Nothing is owed to `account` now.
    error NothingOwed(address account);
    /// @notice `account` refused `amount` wei; its claim is untouched.
    error PaymentRefused(address account, uint256 amount);
    /// @notice Plain payments come from the ledger only: contribute instead.
    error UnexpectedPayment(address from);

    /// @notice The court.
    IDisputes public immutable DISPUTES;
    /// @notice The ledger that pays the court's challengers.
    ILedger public immutable LEDGER;
    /// @notice The receipt that this pool challenges.
    bytes32 public immutable RECEIPT;
    /// @notice `IParams.requiredBond` of the receipt's parameters; the court refuses any other sum.
    uint256 public immutable BOND;
    /// @notice `IDisputes.altCommitOf` for this contract as challenger. Whoever knows the salt may call `openAlt`.
    bytes32 public immutable ALT_COMMIT;

    /// @notice Wei of all contributions.
    uint256 public contributed;
    /// @notice Contribution of `account`.
    mapping(address account => uint256) public contributionOf;
    /// @notice Whether the pool has opened that dispute.
    bool public isChallenged;

    uint256 private _paid; // by all claims
    mapping(address account => uint256) private _paidTo;

    modifier collecting() {
        if (isChallenged) revert AlreadyChallenged(disputeId());
        _;
    }

    constructor(IDisputes court, ILedger ledger, bytes32 receiptId, uint256 bond, bytes32 altCommit) {
        (DISPUTES, LEDGER, RECEIPT, BOND, ALT_COMMIT) = (court, ledger, receiptId, bond, altCommit);
    }

    receive() external payable {
        if (msg.sender != address(LEDGER)) revert UnexpectedPayment(msg.sender);
    }

    /// @notice Add the sent wei to the bond. What exceeds the missing part is sent back in the same call.
    function contribute() external payable collecting {
        uint256 rest = _accept();
        if (rest == msg.value) revert NothingAccepted(msg.value, BOND - contributed);
        _send(rest);
    }

    /// @notice Take the caller's whole contribution back. At any time before the challenge.
    function takeBack() external collecting returns (uint256 amount) {
        amount = contributionOf[msg.sender];
        if (amount == 0) revert NothingOwed(msg.sender);
        contributionOf[msg.sender] = 0;
        contributed -= amount;
        emit TakenBack(msg.sender, amount);
        _send(amount);
    }

    /// @notice Open the dispute with the whole bond. Anybody may, and may send what is missing: the bond is then complete at the
    ///         moment of the challenge, whoever left before. What exceeds the missing part is sent back.
    function challenge(Receipt calldata r, bytes calldata sig, uint64 batchId, bytes32[] calldata proof)
        external
        payable
        collecting
        returns (bytes32 id)
    {
        uint256 rest = _accept();
        if (contributed != BOND) revert BondIncomplete(BOND - contributed);
        isChallenged = true;
        id = DISPUTES.open{value: BOND}(r, sig, batchId, proof, ALT_COMMIT);
        if (id != disputeId()) revert WrongReceipt(id, disputeId());
        emit Challenged(id);
        _send(rest);
    }

    /// @notice Pay the caller its part of what came back so far. May be called again after each payment of the ledger.
    function claim() external returns (uint256 amount) {
        if (!isChallenged) revert NotChallenged(disputeId());
        if (_due() != 0) LEDGER.withdraw();
        amount = _owed(msg.sender, address(this).balance);
        if (amount == 0) revert NothingOwed(msg.sender);
        _paid += amount;
        _paidTo[msg.sender] += amount;
        emit Claimed(msg.sender, amount);
        _send(amount);
    }

    /// @notice Wei that `claim` would pay `account` of what lies here or is payable at the ledger.
    function claimable(address account) external view returns (uint256) {
        return isChallenged ? _owed(account, address(this).balance + _due()) : 0;
    }

    /// @notice The dispute that a challenge of `RECEIPT` opens.
    function disputeId() public view returns (bytes32) {
        return DISPUTES.disputeId(RECEIPT);
    }

    /// @dev Counts of the sent wei what the bond lacks, and gives the rest.
    function _accept() private returns (uint256 rest) {
        uint256 amount = Math.min(msg.value, BOND - contributed);
        if (amount == 0) return msg.value;
        contributionOf[msg.sender] += amount;
        contributed += amount;
        emit Contributed(msg.sender, amount);
        return msg.value - amount;
    }

    function _send(uint256 amount) private {
        if (amount == 0) return;
        (bool ok,) = msg.sender.call{value: amount}("");
        if (!ok) revert PaymentRefused(msg.sender, amount);
    }

    function _due() private view returns (uint256 due) {
        (due,) = LEDGER.dueOf(address(this));
    }

    /// @dev `held` and what was paid is all that ever came back.
    function _owed(address account, uint256 held) private view returns (uint256) {
        return Math.mulDiv(contributionOf[account], held + _paid, BOND) - _paidTo[account];
    }
}
