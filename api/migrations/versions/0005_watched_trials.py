"""Whether a trial is watched while it runs in threads of the coordinator."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    with op.batch_alter_table("trials", schema=None) as batch_op:
        batch_op.add_column(sa.Column("starting", sa.JSON(), nullable=True))


def downgrade() -> None:
    """Take back."""
    with op.batch_alter_table("trials", schema=None) as batch_op:
        batch_op.drop_column("starting")
