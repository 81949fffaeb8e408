"""Speed against floors."""
