"""Disks without bytes: all that Cinder knows, counts and allows of them is real."""

from cinder.volume import driver

MOST_GIB = 100_000


class LabVolumes(driver.VolumeDriver):
    VERSION = "1"

    def check_for_setup_error(self):
        pass

    def _update_volume_stats(self):
        self._stats = {
            "volume_backend_name": self.configuration.volume_backend_name,
            "vendor_name": "gpuaas",
            "driver_version": self.VERSION,
            "storage_protocol": "lab",
            "total_capacity_gb": MOST_GIB,
            "free_capacity_gb": MOST_GIB,
        }

    # -- they come and go ---------------------------------------------------------------------------------------------

    def create_volume(self, volume):
        pass

    def delete_volume(self, volume):
        pass

    def extend_volume(self, volume, new_size):
        pass

    def retype(self, context, volume, new_type, diff, host):
        """All types are of this store: nothing is moved."""
        return True

    def create_snapshot(self, snapshot):
        pass

    def delete_snapshot(self, snapshot):
        pass

    def create_volume_from_snapshot(self, volume, snapshot):
        pass

    def create_cloned_volume(self, volume, src_vref):
        pass

    def clone_image(self, context, volume, image_location, image_meta, image_service):
        """As if the image was in this store already: nothing is fetched."""
        return {}, True

    # -- and are given to machines ------------------------------------------------------------------------------------

    def ensure_export(self, context, volume):
        pass

    def create_export(self, context, volume, connector):
        pass

    def remove_export(self, context, volume):
        pass

    def initialize_connection(self, volume, connector, **kwargs):
        return {"driver_volume_type": "lab", "data": {"volume_id": volume.id}}

    def terminate_connection(self, volume, connector, **kwargs):
        pass
