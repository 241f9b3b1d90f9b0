"""Laws are about answers, not about how quick a busy machine gives them."""

from hypothesis import settings

settings.register_profile("laws", settings.get_profile("unhurried"), max_examples=60)
settings.load_profile("laws")
