"""Shapes that several rooms use."""

from rest_framework import serializers

from gpuaas.api.fields import Email, Output

SUCCEEDED = "Null while it runs, and where another change overtook it: then `summary` says which."


class MemberOutput(Output):
    username = serializers.CharField(source="user.username")
    email = Email(source="user.email", allow_blank=True)
    role = serializers.CharField()
