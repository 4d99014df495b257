// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

/// @title ILedger: all money that is not stake
/// @notice Money enters a pot (one per dispute or equivocation), leaves it as credits or burns, and nothing else
///         moves it. At any time: balance == totalBonds + totalCredits + totalBurned, where bonds are all open pots.
///         Burned wei stay in the contract for ever: there is no function that sends them.
interface ILedger {
    /// @notice Why an account was credited.
    enum Reason {
        NONE,
        BOND_BACK,
        CHALLENGER_SHARE,
        SEAT_PAY,
        OPERATOR_SHARE,
        EQUIVOCATION_REPORT
    }
    /// @notice Why money was burned.
    enum BurnReason {
        NONE,
        REMAINDER,
        PENALTY,
        EQUIVOCATION
    }

    /// @notice A challenger's bond entered pot `ref`.
    event BondTaken(bytes32 indexed ref, address indexed from, uint256 amount);
    /// @notice Slashed stake entered pot `ref`.
    event SlashTaken(bytes32 indexed ref, address indexed from, uint256 amount);
    /// @notice `amount` wei moved from pot `ref` to `account`'s credit.
    event Credited(address indexed account, uint256 amount, Reason reason, bytes32 indexed ref);
    /// @notice `amount` wei of pot `ref` can never leave again.
    event Burned(uint256 amount, BurnReason reason, bytes32 indexed ref);
    /// @notice `account` took its whole credit.
    event Withdrawn(address indexed account, uint256 amount);

    /// @notice Money may not be credited to nobody.
    error CreditToZero(bytes32 ref);
    /// @notice The pot holds less than was asked of it.
    error PotTooSmall(bytes32 ref, uint256 have, uint256 want);
    /// @notice `account` has no credit.
    error NothingDue(address account);
    /// @notice `account` refused its payment; its credit is untouched.
    error PaymentRefused(address account);

    /// @notice Take the sent wei into pot `ref` as `from`'s bond. Disputes only.
    function takeBond(bytes32 ref, address from) external payable;
    /// @notice Take the sent wei into pot `ref` as slashed from `from`. The stake vault only.
    function takeSlash(bytes32 ref, address from) external payable;
    /// @notice Move `amount` wei from pot `ref` to `account`. Disputes and anchor only. Zero is a no-op.
    function credit(bytes32 ref, address account, uint256 amount, Reason reason) external;
    /// @notice Burn `amount` wei of pot `ref`. Disputes and anchor only. Zero is a no-op.
    function burn(bytes32 ref, uint256 amount, BurnReason reason) external;
    /// @notice Burn whatever pot `ref` still holds and return it. Disputes and anchor only.
    function close(bytes32 ref, BurnReason reason) external returns (uint256 burned);
    /// @notice Pay the caller its whole credit.
    function withdraw() external returns (uint256 amount);

    /// @notice Wei due to `account`.
    function creditOf(address account) external view returns (uint256);
    /// @notice Wei in pot `ref`.
    function potOf(bytes32 ref) external view returns (uint256);
    /// @notice Wei in all pots.
    function totalBonds() external view returns (uint256);
    /// @notice Wei in all credits.
    function totalCredits() external view returns (uint256);
    /// @notice Wei burned so far.
    function totalBurned() external view returns (uint256);
}
