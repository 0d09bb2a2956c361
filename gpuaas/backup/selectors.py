"""What is known of the backups that were made."""

from gpuaas.backup.models import Backup


def backup_last() -> Backup | None:
    """The archive with the newest state; None if none was ever made."""
    return Backup.objects.order_by("-taken_at").first()
