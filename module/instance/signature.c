// SPDX-License-Identifier: GPL-2.0
/*
 * The signature of an LWK image, which runs in ring 0 as a module does: in the form of a
 * module's (the kernel's scripts/sign-file), by a key that the kernel takes for modules, and
 * wanted wherever one is wanted of modules.
 */
#include "instance/instance.h"

#include <linux/module.h>
#include <linux/module_signature.h>
#include <linux/security.h>
#include <linux/verification.h>

static bool require_signature;
module_param(require_signature, bool, 0444);
MODULE_PARM_DESC(require_signature,
	"Boot only LWK images with a signature that the kernel would take for a module's");

/* Splits an image: how long it is without its signature, or -ENODATA: it has none. */
static int find_signature(const struct hanare_image *image, size_t *length, size_t *signature)
{
	const size_t mark = sizeof(MODULE_SIGNATURE_MARKER) - 1;
	struct module_signature tail;
	size_t end = image->size;

	if (end < mark || memcmp(image->data + end - mark, MODULE_SIGNATURE_MARKER, mark))
		return -ENODATA;
	end -= mark;
	if (end <= sizeof(tail))
		return -EBADMSG;
	end -= sizeof(tail);
	memcpy(&tail, image->data + end, sizeof(tail));
	*signature = be32_to_cpu(tail.sig_len);
	if (tail.id_type != MODULE_SIGNATURE_TYPE_PKCS7 || tail.algo || tail.hash || tail.signer_len ||
	    tail.key_id_len || *signature >= end)
		return -EBADMSG;
	*length = end - *signature;
	return 0;
}

/* Keys of the kernel's own and what the machine's owner has enrolled. */
static int verify(const struct hanare_image *image)
{
	size_t length, signature;
	int err = find_signature(image, &length, &signature);

	if (err)
		return err;
	err = verify_pkcs7_signature(image->data, length, image->data + length, signature,
				     VERIFY_USE_SECONDARY_KEYRING, VERIFYING_MODULE_SIGNATURE,
				     NULL, NULL);
	if (err == -ENOKEY && IS_ENABLED(CONFIG_INTEGRITY_PLATFORM_KEYRING))
		err = verify_pkcs7_signature(image->data, length, image->data + length, signature,
					     VERIFY_USE_PLATFORM_KEYRING,
					     VERIFYING_MODULE_SIGNATURE, NULL, NULL);
	return err;
}

int hanare_image_verify(struct hanare_image *image, char *message)
{
	const char *why, *who;
	int err = verify(image);

	switch (err) {
	case 0:
		return 0;
	case -ENODATA:
		why = "no signature";
		break;
	case -ENOKEY:
		why = "a signature by a key that this kernel does not know";
		break;
	case -ENOPKG:
		why = "a signature in a way that this kernel does not know";
		break;
	default:
		/* As of a module, a wrong one is worse than none. */
		return refuse(message, -EKEYREJECTED,
			      "the image has a wrong signature: it was changed, or not signed by scripts/sign-file");
	}
	if (require_signature)
		who = "hanare.ko's require_signature";
	else if (is_module_sig_enforced())
		who = "module.sig_enforce";
	else if (security_locked_down(LOCKDOWN_MODULE_SIGNATURE))
		who = "the kernel's lockdown";
	else
		return 0;
	return refuse(message, -EKEYREJECTED,
		      "the image has %s, and %s wants one: sign it as a module (see docs/guide.md)",
		      why, who);
}
