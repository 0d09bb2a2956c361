"""Make an archive, look into one, restore one; make a recovered database safe."""

from gpuaas.backup.services.closing import recovered
from gpuaas.backup.services.making import backup_check, backup_make, backups_keep, keys_write
from gpuaas.backup.services.restoring import Restored, restore

__all__ = ["Restored", "backup_check", "backup_make", "backups_keep", "keys_write", "recovered", "restore"]
