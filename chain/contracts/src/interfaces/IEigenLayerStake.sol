// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IStakeSource} from "./IStakeSource.sol";

/// @title IEigenLayerStake: stake that is held by EigenLayer, behind `IStakeSource`
/// @notice Wrapped ether delegated to the operators of one operator set. The adapter is the set's slasher and the
///         recipient of what is slashed. Weights are recorded by `sync`, which anybody may call, and lose their effect
///         when they grow old: what counts stays slashable for the longest dispute, whatever its owner does next.
///         `totalStake` is the sum of the last records, old ones too. EigenLayer slashes in parts of 10^18 of a whole
///         allocation, and parts are rounded up: an account may lose so much more, and the pot of the dispute gets it.
interface IEigenLayerStake is IStakeSource {
    /// @notice `account` has `stake` wei that will stay slashable for `HORIZON` blocks.
    event Synced(address indexed account, uint256 stake);
    /// @notice EigenLayer refused a slash of `due` wei in all; `retry` takes it when it can.
    event SlashDeferred(address indexed account, bytes32 indexed ref, uint256 due);
    /// @notice `shares` were taken and could not be paid out; `collect(slashId)` fetches them.
    event PaymentDeferred(address indexed account, bytes32 indexed ref, uint256 slashId, uint256 shares);
    /// @notice `amount` wei came after their dispute was settled and went to the pot `LATE`, from which nobody is paid.
    event LateMoney(uint256 amount);

    /// @notice Stake enters and leaves at EigenLayer, not here.
    error StakedElsewhere();
    /// @notice The strategy holds another token than wrapped ether.
    error WrongToken(address token);
    /// @notice `what` lasts `have` blocks, and the longest dispute with the age of a record `needs` more than that.
    error DelayTooShort(bytes32 what, uint256 have, uint256 needs);
    /// @notice The set's slasher or recipient is another account.
    error WrongRole(bytes32 role, address have);
    /// @notice Too little gas to tell a refusal of EigenLayer from a call that was starved.
    error GasTooLow(uint256 left);
    /// @notice There is nothing to retry.
    error NothingDue(address account, bytes32 ref);
    /// @notice Wei come from wrapped ether only.
    error UnexpectedPayment(address from);

    /// @notice Wei that a slash of `account` could take now: allocated and in the withdrawal queue.
    function slashableOf(address account) external view returns (uint256);
    /// @notice Wei of `account` that EigenLayer refused to slash for `ref`.
    function dueOf(address account, bytes32 ref) external view returns (uint256);
    /// @notice Record what `account` has now. Anybody may, and somebody should every `MAX_AGE` blocks.
    function sync(address account) external returns (uint256 stake);
    /// @notice Slash what was refused. Its money comes late.
    function retry(address account, bytes32 ref) external returns (uint256 taken);
    /// @notice Fetch what slash `slashId` took, and whatever arrived before. This money is late.
    function collect(uint256 slashId) external returns (uint256 amount);
}
