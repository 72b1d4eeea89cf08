"""A shop for many users: FastAPI for people, the same state for agents, a cart for each.

    uvicorn examples.shop:api --port 8000
    SIGHTLINE_TOKEN=ana-secret sightline watch ws://127.0.0.1:8000/agents/slop

Whoever connects is one of the users below, by token, and sees the catalog and only
their own cart. What a person does on the web page reaches every agent of that person.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, FastAPI, Header, HTTPException

from sightline import ActionError, App

USERS = {"ana-secret": "ana", "bob-secret": "bob"}
PRODUCTS: dict[str, tuple[str, float]] = {
    "duck": ("Rubber Duck", 4.99),
    "lamp": ("Desk Lamp", 29.0),
    "mug": ("Mug", 7.5),
}
carts: dict[str, dict[str, int]] = {name: {} for name in USERS.values()}

shop = App("shop", "Shop", description="a small shop with a cart for everybody")


@shop.authenticate
def who(peer: Any) -> str:
    """A user for a token; nobody else gets in."""
    if peer.token not in USERS:
        raise ActionError("unauthorized", "bring the token of a user")
    return USERS[peer.token]


@shop.node("catalog")
def catalog() -> dict[str, Any]:
    """The same for everybody."""
    items = [
        {"id": own, "props": {"title": title, "price": price}}
        for own, (title, price) in PRODUCTS.items()
    ]
    return {"type": "collection", "summary": f"{len(items)} products", "items": items}


@shop.node("cart")
def cart(session: str) -> dict[str, Any]:
    """Each user's own."""
    items = [
        {"id": own, "props": {"title": PRODUCTS[own][0], "count": count}}
        for own, count in carts[session].items()
    ]
    return {"type": "collection", "props": {"total": total(session)}, "items": items}


@shop.action("catalog/{product}", "add_to_cart")
def add_to_cart(product: str, session: str, count: int = 1) -> float:
    """Put it into the caller's cart; returns the new total."""
    put(session, product, count)
    return total(session)


@shop.action("cart/{product}", "remove")
def remove(product: str, session: str) -> None:
    """Take it out again."""
    del carts[session][product]


def cart_problem(session: str) -> str | None:
    """Why a cart cannot be bought now."""
    return None if carts[session] else "the cart is empty"


@shop.action("cart", "check_out", dangerous=True, guard=cart_problem)
def check_out(session: str) -> str:
    """Buy what is in the cart. A host asks its user first, for it is marked dangerous."""
    paid = total(session)
    carts[session].clear()
    return f"paid {paid:.2f}"


def put(user: str, product: str, count: int) -> None:
    """Put a product into a cart."""
    if count < 1:
        raise ActionError("invalid_params", "count must be 1 or more")
    carts[user][product] = carts[user].get(product, 0) + count


def total(user: str) -> float:
    """What a cart costs."""
    return round(sum(PRODUCTS[own][1] * count for own, count in carts[user].items()), 2)


api = FastAPI()
api.mount("/agents", shop.asgi())


def user_of(authorization: Annotated[str, Header()] = "") -> str:
    """The same users on the web page."""
    user = USERS.get(authorization.removeprefix("Bearer "))
    if user is None:
        raise HTTPException(401)
    return user


@api.post("/cart/{product}")
def add(product: str, user: Annotated[str, Depends(user_of)]) -> dict[str, float]:
    """A person clicks on the page; that person's agents see it at once."""
    if product not in PRODUCTS:
        raise HTTPException(404)
    put(user, product, 1)
    shop.refresh("cart", where=lambda session: session == user)
    return {"total": total(user)}
