// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title ILedger: all money that is not stake
/// @notice Money enters a pot (one per dispute, demand or report) or the treasury, and leaves a pot as credit, burn or back
///         into the treasury. At any time: balance == totalPots + totalCredits + treasury + totalBurned. Every movement is
///         one event with the pot it belongs to. Burned wei stay here for ever: no function sends them.
interface ILedger {
    /// @notice Why money entered a pot.
    enum Source {
        NONE,
        BOND, // of the challenger
        APPEAL_BOND,
        DEMAND_BOND,
        SLASH, // stake of an operator or a verifier; the pot says what for
        PENALTY, // not used
        ADVANCE, // not used: see `Advanced`
        FEE // for audits, by whoever anchors or gives
    }
    /// @notice Why an account was credited.
    enum Reason {
        NONE,
        BOND_BACK,
        CHALLENGER_SHARE,
        SEAT_PAY,
        OPERATOR_SHARE,
        REPORT, // equivocation, withheld or unanchored
        DEMAND_ANSWERED,
        BOUNTY
    }
    /// @notice Why money was burned.
    enum BurnReason {
        NONE,
        REMAINDER,
        PENALTY,
        REPORT
    }

    /// @notice `amount` wei of `from` entered pot `ref`.
    event Taken(bytes32 indexed ref, address indexed from, uint256 amount, Source source);
    /// @notice `amount` wei moved from pot `ref` to `account`'s credit, payable from `unlockAt` (protocol clock) on.
    event Credited(address indexed account, uint256 amount, Reason reason, bytes32 indexed ref, uint64 unlockAt);
    /// @notice `amount` wei moved from pot `ref` to the credit of each of `accounts`, as often as it is named; payable from
    ///         `unlockAt` on, or with what the account was credited before where that is payable later.
    event CreditedEach(bytes32 indexed ref, Reason reason, uint64 unlockAt, uint256 amount, address[] accounts);
    /// @notice `amount` wei of pot `ref` can never leave again.
    event Burned(uint256 amount, BurnReason reason, bytes32 indexed ref);
    /// @notice `amount` wei moved from the treasury into pot `ref`.
    event Advanced(bytes32 indexed ref, uint256 amount);
    /// @notice `amount` wei of pot `ref` moved into the treasury.
    event Repaid(bytes32 indexed ref, uint256 amount);
    /// @notice `from` gave to the treasury.
    event Funded(address indexed from, uint256 amount);
    /// @notice `account` took what was due.
    event Withdrawn(address indexed account, uint256 amount);

    /// @notice Money may not be credited to nobody.
    error CreditToZero(bytes32 ref);
    /// @notice The pot holds less than was asked of it.
    error PotTooSmall(bytes32 ref, uint256 have, uint256 want);
    /// @notice `account` has no credit that is payable; the next is at `unlockAt` (0: it has none).
    error NothingDue(address account, uint64 unlockAt);
    /// @notice `account` refused its payment; its credit is untouched.
    error PaymentRefused(address account);

    /// @notice Take the sent wei into pot `ref`. Movers, the stake source and the court only.
    function take(bytes32 ref, address from, Source source) external payable;
    /// @notice Move `amount` wei from pot `ref` to `account`. Movers only. Zero is a no-op.
    function credit(bytes32 ref, address account, uint256 amount, Reason reason) external;
    /// @notice `credit` to each of `accounts`, as often as it is named. Movers only. Zero is a no-op.
    function creditEach(bytes32 ref, address[] calldata accounts, uint256 amount, Reason reason) external;
    /// @notice Burn `amount` wei of pot `ref`. Movers only. Zero is a no-op.
    function burn(bytes32 ref, uint256 amount, BurnReason reason) external;
    /// @notice Burn whatever pot `ref` still holds and return it. Movers only.
    function close(bytes32 ref, BurnReason reason) external returns (uint256 burned);
    /// @notice Move up to `want` wei from the treasury into pot `ref`. Movers only. Never reverts for lack of money.
    function advance(bytes32 ref, uint256 want) external returns (uint256 amount);
    /// @notice Move `amount` wei of pot `ref` into the treasury. Movers only. Zero is a no-op.
    function repay(bytes32 ref, uint256 amount) external;
    /// @notice Give the sent wei to the treasury. Anybody.
    function fund() external payable;
    /// @notice Pay the caller every credit that is unlocked.
    function withdraw() external returns (uint256 amount);

    /// @notice Wei due to `account`, locked or not.
    function creditOf(address account) external view returns (uint256);
    /// @notice Wei that `withdraw` would pay now, and when the next part unlocks (0: none).
    function dueOf(address account) external view returns (uint256 due, uint64 nextUnlockAt);
    function potOf(bytes32 ref) external view returns (uint256);
    function totalPots() external view returns (uint256);
    function totalCredits() external view returns (uint256);
    function treasury() external view returns (uint256);
    function totalBurned() external view returns (uint256);
}
