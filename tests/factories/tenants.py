"""Factories of the tenants room."""

import factory
from factory.django import DjangoModelFactory

from tenants.models import Organization, OrganizationMembership, Project, ProjectMembership, User


class UserFactory(DjangoModelFactory[User]):
    class Meta:
        model = User

    username = factory.Sequence(lambda n: f"user{n}")
    email = factory.LazyAttribute(lambda user: f"{user.username}@example.org")
    password = factory.django.Password("correct horse battery")


class OrganizationFactory(DjangoModelFactory[Organization]):
    class Meta:
        model = Organization

    slug = factory.Sequence(lambda n: f"organization-{n}")
    name = factory.LazyAttribute(lambda row: row.slug.replace("-", " ").title())


class ProjectFactory(DjangoModelFactory[Project]):
    class Meta:
        model = Project

    organization = factory.SubFactory(OrganizationFactory)
    slug = factory.Sequence(lambda n: f"project-{n}")
    name = factory.LazyAttribute(lambda row: row.slug.replace("-", " ").title())


class OrganizationMembershipFactory(DjangoModelFactory[OrganizationMembership]):
    class Meta:
        model = OrganizationMembership


class ProjectMembershipFactory(DjangoModelFactory[ProjectMembership]):
    class Meta:
        model = ProjectMembership
