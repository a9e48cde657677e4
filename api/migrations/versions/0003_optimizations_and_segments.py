"""Recorded segments, searches for plans, and which search asked for a trial."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Apply."""
    op.create_table(
        "segments",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("source", sa.JSON(), nullable=False),
        sa.Column("windows", sa.BigInteger(), nullable=False),
        sa.Column("recorded", sa.JSON(), nullable=True),
        sa.Column("token_id", sa.String(length=32), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("segments", schema=None) as batch_op:
        batch_op.create_index(batch_op.f("ix_segments_created_s"), ["created_s"], unique=False)

    op.create_table(
        "optimizations",
        sa.Column("id", sa.String(length=48), nullable=False),
        sa.Column("query", sa.String(length=64), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("settled", sa.JSON(), nullable=False),
        sa.Column("work", sa.String(length=32), nullable=False),
        sa.Column("status", sa.String(length=16), nullable=False),
        sa.Column("rounds", sa.Integer(), nullable=False),
        sa.Column("choice", sa.JSON(), nullable=True),
        sa.Column("published", sa.JSON(), nullable=True),
        sa.Column("published_s", sa.Float(), nullable=True),
        sa.Column("error", sa.JSON(), nullable=True),
        sa.Column("machine", sa.JSON(), nullable=False),
        sa.Column("token_id", sa.String(length=32), nullable=False),
        sa.Column("created_s", sa.Float(), nullable=False),
        sa.Column("finished_s", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    with op.batch_alter_table("optimizations", schema=None) as batch_op:
        for column in ("created_s", "query", "status", "work"):
            batch_op.create_index(batch_op.f(f"ix_optimizations_{column}"), [column], unique=False)

    with op.batch_alter_table("trials", schema=None) as batch_op:
        batch_op.add_column(sa.Column("failure", sa.JSON(), nullable=True))
        batch_op.add_column(sa.Column("optimization", sa.String(length=48), nullable=True))
        batch_op.add_column(sa.Column("key", sa.String(length=160), nullable=True))
        batch_op.add_column(sa.Column("latency", sa.Boolean(), nullable=True))
        batch_op.create_index(batch_op.f("ix_trials_optimization"), ["optimization"], unique=False)


def downgrade() -> None:
    """Take back."""
    with op.batch_alter_table("trials", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_trials_optimization"))
        for column in ("latency", "key", "optimization", "failure"):
            batch_op.drop_column(column)

    with op.batch_alter_table("optimizations", schema=None) as batch_op:
        for column in ("work", "status", "query", "created_s"):
            batch_op.drop_index(batch_op.f(f"ix_optimizations_{column}"))

    op.drop_table("optimizations")
    with op.batch_alter_table("segments", schema=None) as batch_op:
        batch_op.drop_index(batch_op.f("ix_segments_created_s"))

    op.drop_table("segments")
