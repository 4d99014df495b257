// SPDX-License-Identifier: MIT
pragma solidity 0.8.37;

import {IStakeSource} from "../../interfaces/IStakeSource.sol";

/// @title IEigenLayerStake: stake that is held by EigenLayer, behind `IStakeSource`
/// @notice Wrapped ether delegated to the operators of one operator set. The adapter is the set's slasher and the
///         recipient of what is slashed. Weights are recorded by `sync`, which anybody may call, and lose their effect
///         when they grow old: what counts stays slashable for the longest dispute, whatever its owner does next.
///         `totalStake` is the sum of the last records, old ones too. EigenLayer slashes in parts of 10^18 of a whole
///         allocation, and parts are rounded up: an account may lose so much more, and nobody is paid from it.
interface IEigenLayerStake is IStakeSource {
    /// @notice `account` has `stake` wei that will stay slashable for `HORIZON` blocks.
    event Synced(address indexed account, uint256 stake);
    /// @notice EigenLayer refused a slash of `due` wei in all; `retry` takes it when it can.
    event SlashDeferred(address indexed account, bytes32 indexed ref, uint256 due);
    /// @notice `amount` wei were taken and could not be paid out; `collect(slashId)` brings them to their pot.
    event PaymentDeferred(address indexed account, bytes32 indexed ref, uint256 slashId, uint256 amount);
    /// @notice What slash `slashId` took arrived in pot `ref`.
    event Collected(uint256 indexed slashId, bytes32 indexed ref, uint256 amount);

    /// @notice Stake enters and leaves at EigenLayer, not here.
    error StakedElsewhere();
    /// @notice The token of the strategy is no wrapped ether: `withdraw` fails.
    error WrongToken(address token);
    /// @notice `what` lasts `have`, and must last `needs` at least: blocks, for "dispute" seconds.
    error DelayTooShort(bytes32 what, uint256 have, uint256 needs);
    /// @notice The set's slasher or recipient is another account.
    error WrongRole(bytes32 role, address have);
    /// @notice There is nothing to retry.
    error NothingDue(address account, bytes32 ref);
    /// @notice That slash took nothing, or its money has arrived.
    error NothingOwed(uint256 slashId);
    /// @notice EigenLayer has not paid: `have` wei of `want` lie here.
    error PaymentShort(uint256 slashId, uint256 have, uint256 want);
    /// @notice Wei come from wrapped ether only.
    error UnexpectedPayment(address from);

    /// @notice Wei that a slash of `account` could take now: allocated and in the withdrawal queue.
    function slashableOf(address account) external view returns (uint256);
    /// @notice Wei of `account` that EigenLayer refused to slash for `ref`.
    function dueOf(address account, bytes32 ref) external view returns (uint256);
    /// @notice What slash `slashId` took and for which pot, as long as it has not arrived there.
    function owedOf(uint256 slashId) external view returns (bytes32 ref, uint256 amount);
    /// @notice Record what `account` has now. Anybody may, and somebody should every `MAX_AGE` blocks.
    function sync(address account) external returns (uint256 stake);
    /// @notice Slash what was refused. Its dispute was settled without it: the money goes to the pot `LATE`, from which
    ///         nobody is paid.
    function retry(address account, bytes32 ref) external returns (uint256 taken);
    /// @notice Fetch what slash `slashId` took and bring it to its pot. Anybody; reverts as long as EigenLayer does not pay.
    function collect(uint256 slashId) external returns (uint256 amount);
    /// @notice Bring what lies here and is owed to no pot to the pot `LATE`. Anybody.
    function sweep() external returns (uint256 amount);
}
